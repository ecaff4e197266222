// Package consume answers what "shardlease consume" prints, and when it has printed everything.
package consume
