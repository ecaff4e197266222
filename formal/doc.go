// Command formal answers whether the protocol keeps its promises in every order of events, within bounds: it explores models of
// one lease row (internal/row) and of the leases of a stream that is resharded (internal/shards) exhaustively, and then each of
// them without one of its guards, which must break something. README.md says what is modelled and how to read what it prints.
package main
