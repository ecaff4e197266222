package dynamosketch

import "time"

type Error struct {
	Status    int
	Code, Msg string
}
type bucket struct {
	tokens float64
	at     time.Time
}

func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
