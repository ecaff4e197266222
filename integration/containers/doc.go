// Package containers answers whether a container engine is here, and runs LocalStack and DynamoDB Local on it.
//
// Both are started by testcontainers-go, whose own settings (DOCKER_HOST, ~/.testcontainers.properties, …) say where the
// engine is. Ask [Engine] first: without an engine the functions of this package return its error, whereas testcontainers-go
// panics in places. Tests of consumers rather use the package awstest, which falls back on this module's emulator.
//
// An image that carries the label [StandInLabel] is not what its name says: see README.md in this folder.
package containers
