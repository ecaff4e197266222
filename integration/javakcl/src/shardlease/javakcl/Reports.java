package shardlease.javakcl;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;

/** Writes reports as the Go workers' reporter does: one JSON line each, with one write, before what it tells is relied on. */
final class Reports {
  private final FileOutputStream out = new FileOutputStream(FileDescriptor.out);

  synchronized void say(String kind, String shard, long token, String more) throws IOException {
    String line = "{\"kind\":\"" + kind + "\",\"shard\":\"" + shard + "\",\"token\":" + token + more + "}\n";
    out.write(line.getBytes(StandardCharsets.UTF_8));
  }

  /** For what must not stop the caller; if nobody listens, the next batch finds out. */
  void mention(String kind, String shard, long token, Throwable error) {
    try {
      say(kind, shard, token, error == null ? "" : ",\"err\":" + quoted(error.toString()));
    } catch (IOException e) {
      e.printStackTrace();
    }
  }

  static String quoted(String s) {
    StringBuilder b = new StringBuilder("\"");
    for (char c : s.toCharArray()) {
      if (c == '"' || c == '\\') {
        b.append('\\').append(c);
      } else if (c < ' ') {
        b.append(String.format("\\u%04x", (int) c));
      } else {
        b.append(c);
      }
    }
    return b.append('"').toString();
  }
}
