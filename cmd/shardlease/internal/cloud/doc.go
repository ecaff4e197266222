// Package cloud answers which Kinesis and which DynamoDB the command talks to, and as whom.
package cloud
