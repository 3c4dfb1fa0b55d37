# Writes a text file as a string literal of C++: cmake -D FROM=page.html -D TO=page.html.inc -P embed.cmake
file(READ "${FROM}" text)
file(WRITE "${TO}" "R\"page(${text})page\"\n")
