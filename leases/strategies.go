package leases

import (
	"fmt"
	"strings"

	"github.com/shardlease/shardlease/config"
)

// named are the strategies that need nothing but their name; config lists the same names.
var named = map[string]AssignmentStrategy{
	config.LeaseCount:         LeaseCount{},
	config.ThroughputVariance: ThroughputVariance{},
	config.Sticky:             Sticky{},
	config.ConsistentHash:     ConsistentHash{},
	config.Average:            Average{},
}

// StrategyByName returns the built-in strategy that LeaseManagement.AssignmentStrategy names; an empty name is the default,
// [LeaseCount]. An unknown one is an error that lists the names. [Zone] has none: it needs a function.
func StrategyByName(name string) (AssignmentStrategy, error) {
	if name == "" {
		return LeaseCount{}, nil
	}
	if s, ok := named[name]; ok {
		return s, nil
	}
	return nil, fmt.Errorf("assignment strategy %q is not known, want one of %s", name, strings.Join(config.AssignmentStrategies(), ", "))
}
