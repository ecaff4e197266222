// Package config answers what can be set, what the defaults are, and whether it is consistent.
//
// Start from [Default], change what matters, and hand the [Config] to the library, which calls [Config.Validate] and then
// [Config.Complete]. A zero field means "the default", which may be derived from other fields, so that changing
// FailoverTime alone is enough (but WorkerID is required, and CreateTable and Deaggregate are off where a Config is made without
// [Default]); a wrong value is an error that names field, value and bound, never silently replaced.
//
// [Hooks] are how a program sees what a worker does; [SlogHooks] is the adapter for logs.
package config
