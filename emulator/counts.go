package emulator

import (
	"maps"
	"sync"
)

// CountKey names what a [Count] is about: one client's calls of one operation. As an argument of [Counts.Of] an empty
// field stands for all.
type CountKey struct {
	Client    string  // as given to ClientConfig; on a port, the access key id
	Service   Service // Kinesis, DynamoDB or DynamoDBStreams
	Operation string  // as UpdateItem
}

// Count is what the server has seen of some requests.
type Count struct {
	Requests         int64   // all that arrived, also those that a fault ended
	Errors           int64   // answered with an error, throttling and failed conditions included; also replies lost to a fault
	Throttled        int64   // refused because of a limit or a Throttle rule
	FailedConditions int64   // writes (and transactions) whose condition did not hold
	ReadUnits        float64 // DynamoDB capacity read, as the service would charge it
	WriteUnits       float64 // DynamoDB capacity written, failed conditions included
}

func (c *Count) add(o Count) {
	c.Requests += o.Requests
	c.Errors += o.Errors
	c.Throttled += o.Throttled
	c.FailedConditions += o.FailedConditions
	c.ReadUnits += o.ReadUnits
	c.WriteUnits += o.WriteUnits
}

// Counts is a snapshot of what every client has asked; see [Server.Counts].
type Counts map[CountKey]Count

// Of adds up the counts that match the key's non-empty fields: Of(CountKey{}) is everything,
// Of(CountKey{Service: DynamoDB, Operation: "Scan"}) all scans.
func (c Counts) Of(key CountKey) Count {
	var sum Count
	for k, n := range c {
		if (key.Client == "" || key.Client == k.Client) && (key.Service == "" || key.Service == k.Service) &&
			(key.Operation == "" || key.Operation == k.Operation) {
			sum.add(n)
		}
	}
	return sum
}

type counter struct {
	mu sync.Mutex
	by Counts
}

func (c *counter) add(key CountKey, n Count) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := c.by[key]
	sum.add(n)
	c.by[key] = sum
}

// Counts is what was asked since the server was made or [Server.ResetCounts] was called. A request counts when its
// answer is ready; a subscription, when it ends.
func (s *Server) Counts() Counts {
	s.counts.mu.Lock()
	defer s.counts.mu.Unlock()
	return maps.Clone(s.counts.by)
}

// ResetCounts makes [Server.Counts] start from zero.
func (s *Server) ResetCounts() {
	s.counts.mu.Lock()
	defer s.counts.mu.Unlock()
	clear(s.counts.by)
}
