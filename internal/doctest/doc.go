// Package doctest answers whether the documents still say what the code does. It has tests only: each reads a document in
// docs/ and holds it against the source, or against workers that run on the emulator.
package doctest
