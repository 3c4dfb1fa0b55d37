"""A service that answers with the request that it got: service.py NAME PORT"""
import http.server
import json
import sys

NAME, PORT = sys.argv[1], int(sys.argv[2])


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps connections open
    wbufsize = -1  # sends header and body together

    def do_GET(self):
        self.answer({"service": NAME, "path": self.path, "user": self.headers["X-User"]})

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))  # `buffer_request` sends a length with every body
        self.do_GET()

    def answer(self, what):
        body = json.dumps(what).encode() + b"\n"
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
