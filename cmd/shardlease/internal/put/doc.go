// Package put answers what "shardlease put" does with lines: which record each of them is, and why one of them cannot be.
package put
