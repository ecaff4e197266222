// Package mermaid reads the state drawings in our documents, so that a test can fail when a drawing and the code differ.
package mermaid

import "strings"

// Edge is one arrow of a state diagram.
type Edge struct{ From, To, Label string }

// Edges returns the arrows of the stateDiagram-v2 in text whose first line contains title (a mermaid comment, "%% title"),
// in the order drawn. Start and end points ("[*]") are left out. Text may be a whole document, also a Go comment.
func Edges(text, title string) []Edge {
	var edges []Edge
	inside := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "//"))
		switch {
		case strings.HasPrefix(line, "%%"):
			inside = strings.Contains(line, title)
		case strings.HasPrefix(line, "```"):
			inside = false
		case inside && strings.Contains(line, "-->"):
			from, rest, _ := strings.Cut(line, "-->")
			to, label, _ := strings.Cut(rest, ":")
			e := Edge{strings.TrimSpace(from), strings.TrimSpace(to), strings.TrimSpace(label)}
			if e.From != "[*]" && e.To != "[*]" {
				edges = append(edges, e)
			}
		}
	}
	return edges
}
