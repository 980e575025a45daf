/** One stream of batches: a request at a time, each with its response. */
import type { ClientDuplexStream } from "@grpc/grpc-js";
import type { Connection } from "./connection.js";
import { errorOfCall, GoQueueError, wasNeverSent } from "./errors.js";
import {
  type PublishBatchRequest,
  type PublishBatchResponse,
  PublishServiceService,
} from "./gen/goqueue/v1/publish.js";

interface Pending {
  resolve: (answer: PublishBatchResponse) => void;
  reject: (error: GoQueueError) => void;
}

export class BatchStream {
  private stream: ClientDuplexStream<PublishBatchRequest, PublishBatchResponse> | undefined;
  private pending: Pending | undefined;

  constructor(private readonly connection: Connection) {}

  /** Send a batch. An error is `unsure` if the broker may have stored it. */
  async send(request: PublishBatchRequest, timeoutMs: number): Promise<PublishBatchResponse> {
    const stream = (this.stream ??= this.open());
    const timer = setTimeout(() => this.end(stream, timedOut(timeoutMs)), timeoutMs);
    try {
      return await new Promise<PublishBatchResponse>((resolve, reject) => {
        this.pending = { resolve, reject };
        stream.write(request);
      });
    } finally {
      clearTimeout(timer);
    }
  }

  private open(): ClientDuplexStream<PublishBatchRequest, PublishBatchResponse> {
    const stream = this.connection.open(PublishServiceService.publishBatches);
    stream.on("data", (answer: PublishBatchResponse) => {
      const pending = this.pending;
      this.pending = undefined;
      pending?.resolve(answer);
    });
    stream.on("error", (failure) => this.end(stream, errorOfCall(failure), !wasNeverSent(failure)));
    stream.on("end", () => {
      this.end(stream, new GoQueueError("broker_unreachable", "the broker has ended the stream"));
    });
    return stream;
  }

  private end(
    stream: ClientDuplexStream<PublishBatchRequest, PublishBatchResponse>, error: GoQueueError, unsure = true,
  ): void {
    if (stream !== this.stream) return;
    this.stream = undefined;
    stream.cancel();
    const pending = this.pending;
    this.pending = undefined;
    pending?.reject(new GoQueueError(error.code, error.message, { ...error, unsure }));
  }

  close(): void {
    const stream = this.stream;
    if (stream === undefined) return;
    this.stream = undefined;
    stream.end();
    this.pending?.reject(new GoQueueError("client_closed", "the producer was closed", { unsure: true }));
    this.pending = undefined;
  }
}

function timedOut(ms: number): GoQueueError {
  return new GoQueueError("request_timed_out", `the broker did not answer within ${ms} ms`);
}
