import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.HttpClient;
import io.vertx.core.http.HttpClientOptions;
import io.vertx.core.http.HttpClientRequest;
import io.vertx.core.http.HttpClientResponse;
import io.vertx.core.http.HttpMethod;
import io.vertx.core.http.HttpVersion;
import io.vertx.core.http.RequestOptions;
import java.nio.file.Files;
import java.nio.file.Path;

/** Vert.x with its defaults, and with HTTP/2, for which it asks by an upgrade. Arguments: URL, file. */
public class VertxSender {
  public static void main(String[] arguments) throws Exception {
    Buffer data = Buffer.buffer(Files.readAllBytes(Path.of(arguments[1])));
    Vertx vertx = Vertx.vertx();
    HttpClientOptions http2 = new HttpClientOptions().setProtocolVersion(HttpVersion.HTTP_2);
    HttpClient[] clients = {vertx.createHttpClient(), vertx.createHttpClient(), vertx.createHttpClient(http2)};
    RequestOptions options = new RequestOptions().setMethod(HttpMethod.POST).setAbsoluteURI(arguments[0]);
    for (int id = 1; id <= clients.length; id++) {
      HttpClientRequest request = wait(clients[id - 1].request(options));
      request.putHeader("ce-specversion", "1.0").putHeader("ce-id", "" + id)
          .putHeader("ce-source", "/vertx").putHeader("ce-type", "test.sent")
          .putHeader("content-type", "application/octet-stream");
      Future<HttpClientResponse> response;
      if (id == 2) {
        request.setChunked(true);
        request.write(data.getBuffer(0, 1000));
        request.end(data.getBuffer(1000, data.length()));
        response = request.response();
      } else {
        response = request.send(data);
      }
      System.out.println(id + " " + wait(response).statusCode());
    }
    System.exit(0);
  }

  private static <T> T wait(Future<T> future) throws Exception {
    return future.toCompletionStage().toCompletableFuture().get();
  }
}
