import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;

/** Java's own client with its defaults: it asks for an upgrade to HTTP/2. Arguments: URL, file. */
public class JavaHttpClient {
  public static void main(String[] arguments) throws Exception {
    Path file = Path.of(arguments[1]);
    HttpClient client = HttpClient.newHttpClient();
    HttpRequest.BodyPublisher[] bodies = {
      HttpRequest.BodyPublishers.ofByteArray(Files.readAllBytes(file)),
      HttpRequest.BodyPublishers.ofInputStream(() -> open(file)), // in chunks
    };
    for (int id = 1; id <= bodies.length; id++) {
      HttpRequest request =
          HttpRequest.newBuilder(URI.create(arguments[0]))
              .header("ce-specversion", "1.0").header("ce-id", "" + id)
              .header("ce-source", "/java").header("ce-type", "test.sent")
              .header("content-type", "application/octet-stream")
              .POST(bodies[id - 1]).build();
      System.out.println(id + " " + client.send(request, HttpResponse.BodyHandlers.ofString()).statusCode());
    }
  }

  private static java.io.InputStream open(Path file) {
    try {
      return Files.newInputStream(file);
    } catch (java.io.IOException error) {
      throw new java.io.UncheckedIOException(error);
    }
  }
}
