package awstest

import (
	"maps"

	"github.com/shardlease/shardlease/emulator"
)

// Option changes what [Start] and [Open] take.
type Option func(*settings)

type settings struct {
	emulatorOnly    bool
	emulatorOptions []emulator.Option
	dynamodbLocal   bool
	image           string
	env             map[string]string
}

// WithEmulator takes this module's emulator, made with opts, for both services, whatever else there is: for tests that
// inject faults or count requests by [Environment.Emulator]. No variable is read then.
func WithEmulator(opts ...emulator.Option) Option {
	return func(s *settings) { s.emulatorOnly, s.emulatorOptions = true, opts }
}

// WithDynamoDBLocal takes a container of DynamoDB Local for DynamoDB rather than LocalStack's, if it comes to containers.
func WithDynamoDBLocal() Option { return func(s *settings) { s.dynamodbLocal = true } }

// WithLocalStackImage takes another image of LocalStack than containers.LocalStackImage, if it comes to containers. Those after 4.14.0
// want LOCALSTACK_AUTH_TOKEN.
func WithLocalStackImage(image string) Option { return func(s *settings) { s.image = image } }

// WithLocalStackEnv sets variables for LocalStack in its container, such as KINESIS_ERROR_PROBABILITY. Given more than once,
// the last value of each holds.
func WithLocalStackEnv(env map[string]string) Option {
	return func(s *settings) {
		if s.env == nil {
			s.env = map[string]string{}
		}
		maps.Copy(s.env, env)
	}
}
