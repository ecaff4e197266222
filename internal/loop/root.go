package loop

import "context"

type rootKey struct{}

// Rooted returns a context like ctx, from which and from whose descendants [Root] makes contexts that live long.
func Rooted(ctx context.Context) context.Context {
	return context.WithValue(ctx, rootKey{}, context.WithoutCancel(ctx))
}

// Root returns a context that never ends, with the values of the one that [Rooted] was given, or of ctx itself if there was none. What
// lives longer than a request, and takes its values from it, keeps the request's contexts alive otherwise: some 200 bytes for each lease.
func Root(ctx context.Context) context.Context {
	if root, ok := ctx.Value(rootKey{}).(context.Context); ok {
		return root
	}
	return context.WithoutCancel(ctx)
}
