// Package awshttp answers how a worker's AWS clients reach the network: with connections enough for many shards, and
// without the fault of the SDK's request body that breaks connections while an answer is being read.
package awshttp
