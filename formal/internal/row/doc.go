// Package row models one row of the lease table and the processes that write it: workers as built, Java workers beside them, and
// all that can happen to requests and processes. See formal/README.md for what is and what is not modelled.
//
// A model without one of its guards (see [Variants]) must break a rule: that is how the rules are known to see.
package row
