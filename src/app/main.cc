#include "app/program/program.h"

int main(int count, char** arguments) { return sluice::Program().run(count, arguments); }
