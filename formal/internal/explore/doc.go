// Package explore answers whether a rule holds in every state that a system of communicating processes can reach, and
// whether a goal can be reached from every one of them.
//
// A [System] is a value that can be copied and compared, an initial one, and a function that lists what may happen next.
// [Run] visits every state, breadth first, so that the trace of a broken rule is a shortest one. It remembers states by a hash
// of 64 bits, whose seed differs from run to run: among ten million states two share one with a probability of 1 in 300,000,
// and then one of them is not followed.
package explore
