package containers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/localstack"
	"github.com/testcontainers/testcontainers-go/wait"
)

// The images that are started unless the caller names others.
const (
	// LocalStackImage serves Kinesis and DynamoDB on one port. It is the last version that starts without an account:
	// later ones want LOCALSTACK_AUTH_TOKEN.
	LocalStackImage = "localstack/localstack:4.14.0"
	// DynamoDBLocalImage serves DynamoDB.
	DynamoDBLocalImage = "amazon/dynamodb-local:3.3.0"
)

// StandInLabel marks an image that bears the name of another and is made of this repository's emulator
// (integration/containers/images.sh), so that container code can be run where nothing can be pulled.
const StandInLabel = "shardlease.standin"

// tokenEnv is passed on to LocalStack when it is set.
const tokenEnv = "LOCALSTACK_AUTH_TOKEN"

// startTimeout bounds the time from a container's start to its first answer. LocalStack takes five to twenty seconds on a
// machine that has nothing else to do. Pulling an image does not count.
const startTimeout = 3 * time.Minute

// stopTimeout bounds the removal of a container.
const stopTimeout = 30 * time.Second

// Server is a container that serves one or both services. Its methods may be called by several goroutines.
type Server struct {
	Image    string // as asked for
	Endpoint string // such as http://localhost:32768
	// StandIn tells that the image is this repository's emulator under another's name: what a test learns from it is
	// that its container code works, and nothing about the server that the image is named after.
	StandIn bool

	container testcontainers.Container
}

// String says what runs there, and admits it if that is a stand-in.
func (s *Server) String() string {
	if s.StandIn {
		return s.Image + ", a stand-in made of shardlease's emulator"
	}
	return s.Image
}

// Stop removes the container. It takes half a minute at most, whatever becomes of ctx, so that it may be called with the
// context of a test that is over.
func (s *Server) Stop(ctx context.Context) error {
	if err := remove(ctx, s.container); err != nil {
		return fmt.Errorf("stop the container of %s: %w", s.Image, err)
	}
	return nil
}

// Settings changes how a server is started. The zero value is what most tests want.
type Settings struct {
	Image string // empty: [LocalStackImage] or [DynamoDBLocalImage]
	// Env are variables for the server, such as KINESIS_ERROR_PROBABILITY for LocalStack.
	Env map[string]string
}

// LocalStack starts LocalStack with Kinesis and DynamoDB, and returns when it answers. Variables of s.Env come on top of
// ours; LOCALSTACK_AUTH_TOKEN is passed on from this process's environment if it is set. An error that is [ErrNoEngine] means that there is no
// engine; every other one names the image and the cause, and nothing is left running.
func LocalStack(ctx context.Context, s Settings) (*Server, error) {
	if s.Image == "" {
		s.Image = LocalStackImage
	}
	env := map[string]string{
		"SERVICES":       "kinesis,dynamodb",
		"DISABLE_EVENTS": "1", // it reports its use to its makers otherwise, and waits for that where there is no network
	}
	if token := os.Getenv(tokenEnv); token != "" {
		env[tokenEnv] = token
	}
	maps.Copy(env, s.Env)
	return start(ctx, s.Image, "4566/tcp", func(ctx context.Context) (testcontainers.Container, error) {
		c, err := localstack.Run(ctx, s.Image, testcontainers.WithLogger(quiet{}), testcontainers.WithEnv(env),
			testcontainers.WithWaitStrategyAndDeadline(startTimeout, wait.ForHTTP("/_localstack/health").WithPort("4566/tcp").WithStartupTimeout(startTimeout)))
		if c == nil { // a nil *LocalStackContainer must not become a Container that is not nil
			return nil, err
		}
		return c, err
	})
}

// DynamoDBLocal starts DynamoDB Local, in memory, and returns when it answers. Its errors are as those of [LocalStack].
func DynamoDBLocal(ctx context.Context, s Settings) (*Server, error) {
	if s.Image == "" {
		s.Image = DynamoDBLocalImage
	}
	return start(ctx, s.Image, "8000/tcp", func(ctx context.Context) (testcontainers.Container, error) {
		c, err := testcontainers.Run(ctx, s.Image, testcontainers.WithLogger(quiet{}), testcontainers.WithEnv(s.Env),
			// -sharedDb: one database whatever access key and region a client has, so that workers with different ones
			// see the same tables.
			testcontainers.WithCmd("-jar", "DynamoDBLocal.jar", "-sharedDb", "-inMemory"),
			testcontainers.WithExposedPorts("8000/tcp"),
			// An HTTP answer is surer than an open port, which the engine's proxy may hold open before the server
			// listens. A bare GET is a bad request for DynamoDB.
			testcontainers.WithWaitStrategyAndDeadline(startTimeout, wait.ForHTTP("/").WithPort("8000/tcp").
				WithStatusCodeMatcher(func(status int) bool { return status == http.StatusBadRequest }).
				WithStartupTimeout(startTimeout)))
		if c == nil {
			return nil, err
		}
		return c, err
	})
}

// start runs a container and finds out where it listens. A container that does not get so far is removed.
func start(ctx context.Context, image, port string, run func(context.Context) (testcontainers.Container, error)) (s *Server, err error) {
	if err := Engine(ctx); err != nil {
		return nil, err
	}
	var c testcontainers.Container
	err = withoutPanic(func() (err error) {
		c, err = run(ctx)
		return err
	})
	defer func() {
		if err != nil && c != nil {
			err = errors.Join(err, remove(ctx, c))
		}
	}()
	if err != nil {
		return nil, fmt.Errorf("start a container of %s: %w", image, err)
	}
	endpoint, err := c.PortEndpoint(ctx, port, "http")
	if err != nil {
		return nil, fmt.Errorf("find port %s of the container of %s: %w", port, image, err)
	}
	info, err := c.Inspect(ctx)
	if err != nil {
		return nil, fmt.Errorf("look at the container of %s: %w", image, err)
	}
	return &Server{Image: image, Endpoint: endpoint, StandIn: info.Config.Labels[StandInLabel] != "", container: c}, nil
}

// remove ends a container and waits until it is gone.
func remove(ctx context.Context, c testcontainers.Container) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return testcontainers.TerminateContainer(c, testcontainers.StopContext(ctx))
}
