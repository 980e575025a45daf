/** The channel to the broker: addresses, TLS, keys, deadlines, and retries of calls that may be repeated. */
import { readFileSync } from "node:fs";
import {
  type CallOptions as GrpcCallOptions,
  Client,
  type ClientDuplexStream,
  type ClientReadableStream,
  credentials,
  type ChannelCredentials,
  Metadata,
} from "@grpc/grpc-js";
import { errorOfCall, GoQueueError } from "./errors.js";

export interface TlsOptions {
  /** PEM of the authority that signed the broker's certificate, or the path of a file. Without it, those of the system. */
  ca?: string | Buffer;
  /** PEM, or the path, of the certificate and key that this client presents. */
  cert?: string | Buffer;
  key?: string | Buffer;
}

export interface ClientOptions {
  /** HOST:PORT of the broker's gRPC listener. Default: GOQUEUE_GRPC_ADDRESS, or 127.0.0.1:9090. */
  address?: string;
  /** The API key. Default: GOQUEUE_API_KEY, or the text of the file GOQUEUE_API_KEY_FILE. */
  apiKey?: string;
  /** The tenant, for operators. Default: GOQUEUE_TENANT. */
  tenant?: string;
  /** Default: TLS if options are given or the environment has GOQUEUE_CA_FILE. `true`: with the system's authorities. */
  tls?: boolean | TlsOptions;
  /** Maximum time of a call with its retries. Default: 30,000. */
  timeoutMs?: number;
}

/** Options of single calls. */
export interface CallOptions {
  timeoutMs?: number;
  signal?: AbortSignal;
}

/** A method of a service, as generated. */
export interface Method<Q, A> {
  readonly path: string;
  readonly requestSerialize: (value: Q) => Buffer;
  readonly responseDeserialize: (value: Buffer) => A;
}

const FIRST_DELAY_MS = 50;
const LONGEST_DELAY_MS = 5000;
/** The time that is kept for the last of repeated calls. */
const LAST_TRY_MS = 100;

/** Exponential backoff with full jitter; never less than the broker asked for. */
export class Backoff {
  private attempts = 0;

  next(error: GoQueueError): number {
    const most = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** Math.min(this.attempts++, 20));
    return Math.min(error.retryAfterMs ?? 0, 60_000) + most * Math.random();
  }

  reset(): void {
    this.attempts = 0;
  }
}

export class Connection {
  readonly timeoutMs: number;
  private readonly client: Client;
  private readonly metadata = new Metadata();
  private closed = false;

  constructor(options: ClientOptions) {
    this.timeoutMs = options.timeoutMs ?? 30_000;
    const address = options.address ?? process.env.GOQUEUE_GRPC_ADDRESS ?? "127.0.0.1:9090";
    if (/^https?:/.test(address)) {
      const hint = "it is HOST:PORT of the broker's gRPC listener, as in 127.0.0.1:9090";
      throw new GoQueueError("request_invalid", `the address ${address} is a URL of HTTP`, { hint });
    }
    const key = options.apiKey ?? environmentKey();
    if (key) this.metadata.set("authorization", `Bearer ${key}`);
    const tenant = options.tenant ?? process.env.GOQUEUE_TENANT;
    if (tenant) this.metadata.set("x-tenant", tenant);
    this.client = new Client(address, channelCredentials(options), {
      "grpc.keepalive_time_ms": 20_000,
      "grpc.keepalive_timeout_ms": 10_000,
      "grpc.max_receive_message_length": 32 << 20,
      "grpc.max_send_message_length": 32 << 20,
      "grpc.initial_reconnect_backoff_ms": 100,
      "grpc.max_reconnect_backoff_ms": 2000,
      "grpc.use_local_subchannel_pool": 1,
      "grpc.primary_user_agent": "goqueue-typescript/0.1.0",
    });
  }

  /** Call a method; with `repeatable`, again after passing failures until the time is over. */
  async call<Q, A>(method: Method<Q, A>, request: Q, options: CallOptions & { repeatable?: boolean } = {}): Promise<A> {
    const deadline = Date.now() + (options.timeoutMs ?? this.timeoutMs);
    const backoff = new Backoff();
    let unsure = false;
    for (;;) {
      try {
        return await this.callOnce(method, request, deadline, options.signal);
      } catch (failure) {
        const error = errorOfCall(failure);
        unsure ||= error.unsure;
        const left = deadline - LAST_TRY_MS - Date.now();
        if (!options.repeatable || !error.isTransient || left <= (error.retryAfterMs ?? 0) || this.closed) {
          throw unsure === error.unsure ? error : new GoQueueError(error.code, error.message, { ...error, unsure, cause: error });
        }
        await pause(Math.min(backoff.next(error), left), options.signal);
      }
    }
  }

  private callOnce<Q, A>(method: Method<Q, A>, request: Q, deadline: number, signal?: AbortSignal): Promise<A> {
    this.refuseIfClosed();
    return new Promise<A>((resolve, reject) => {
      const call = this.client.makeUnaryRequest(
        method.path, method.requestSerialize, method.responseDeserialize, request, this.metadata, { deadline },
        (error, answer) => {
          signal?.removeEventListener("abort", cancel);
          if (error) reject(signal?.aborted ? cancelled(signal) : error);
          else resolve(answer as A);
        },
      );
      const cancel = () => call.cancel();
      signal?.addEventListener("abort", cancel);
      if (signal?.aborted) cancel();
    });
  }

  /** Open a stream of responses. The caller cancels it. */
  read<Q, A>(method: Method<Q, A>, request: Q): ClientReadableStream<A> {
    this.refuseIfClosed();
    return this.client.makeServerStreamRequest(
      method.path, method.requestSerialize, method.responseDeserialize, request, this.metadata, STREAM,
    );
  }

  /** Open streams of both. The caller cancels them. */
  open<Q, A>(method: Method<Q, A>): ClientDuplexStream<Q, A> {
    this.refuseIfClosed();
    return this.client.makeBidiStreamRequest(
      method.path, method.requestSerialize, method.responseDeserialize, this.metadata, STREAM,
    );
  }

  close(): void {
    this.closed = true;
    this.client.close();
  }

  private refuseIfClosed(): void {
    if (this.closed) throw new GoQueueError("client_closed", "this client is closed", { hint: "make another one" });
  }
}

const STREAM: GrpcCallOptions = {};

function cancelled(signal: AbortSignal): GoQueueError {
  return new GoQueueError("cancelled", "the call was cancelled by its signal", { cause: signal.reason, unsure: true });
}

function environmentKey(): string | undefined {
  const { GOQUEUE_API_KEY: key, GOQUEUE_API_KEY_FILE: file } = process.env;
  return key || (file ? readFileSync(file, "utf8").trim() : undefined);
}

function channelCredentials(options: ClientOptions): ChannelCredentials {
  const file = process.env.GOQUEUE_CA_FILE;
  const tls = options.tls ?? (file ? { ca: file } : false);
  if (tls === false) return credentials.createInsecure();
  if (tls === true) return credentials.createSsl();
  return credentials.createSsl(pem(tls.ca), pem(tls.key), pem(tls.cert));
}

function pem(given: string | Buffer | undefined): Buffer | null {
  if (given === undefined) return null;
  if (typeof given !== "string") return given;
  return given.includes("-----BEGIN") ? Buffer.from(given) : readFileSync(given);
}

/** Wait; an abort of the signal ends it with an error. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(cancelled(signal as AbortSignal));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    if (signal?.aborted) stop();
    else signal?.addEventListener("abort", stop, { once: true });
  });
}
