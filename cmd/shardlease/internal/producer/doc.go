// Package producer answers how records get into a stream in order: it packs them into PutRecords calls, and sends what
// the service refused again before anything later of the same key.
package producer
