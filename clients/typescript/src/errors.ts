/** Errors of the broker with their codes, and of the way to it. */
import { type Metadata, type ServiceError, status } from "@grpc/grpc-js";
import { type ErrorCode, TRANSIENT_CODES } from "./gen/codes.js";
import { BadRequest, ErrorInfo, RetryInfo } from "./gen/google/rpc/error_details.js";
import { Status } from "./gen/google/rpc/status.js";
import type { Error as ErrorMessage } from "./gen/goqueue/v1/types.js";

export type { ErrorCode } from "./gen/codes.js";

/** Codes of gRPC and of this client. */
export type ClientErrorCode =
  | "broker_unreachable"
  | "request_timed_out"
  | "cancelled"
  | "client_closed"
  | "reader_too_slow"
  | "unknown";

export interface ErrorFields {
  hint?: string;
  details?: Readonly<Record<string, string>>;
  retryAfterMs?: number;
  status?: status;
  problems?: readonly { field: string; problem: string }[];
  unsure?: boolean;
  cause?: unknown;
}

export class GoQueueError extends Error {
  override readonly name = "GoQueueError";
  /** What to do. */
  readonly hint: string | undefined;
  /** Further values, as text or JSON. */
  readonly details: Readonly<Record<string, string>>;
  /** The time after which the broker asks to be tried again. */
  readonly retryAfterMs: number | undefined;
  /** The status of gRPC, if the whole call failed. */
  readonly status: status | undefined;
  /** The fields of an invalid request. */
  readonly problems: readonly { field: string; problem: string }[];
  /** True if the broker may have carried out the request all the same. */
  readonly unsure: boolean;

  constructor(
    /** The stable code, as in docs/errors.md. */
    readonly code: ErrorCode | ClientErrorCode,
    message: string,
    fields: ErrorFields = {},
  ) {
    super(message, { cause: fields.cause });
    this.hint = fields.hint;
    this.details = fields.details ?? {};
    this.retryAfterMs = fields.retryAfterMs;
    this.status = fields.status;
    this.problems = fields.problems ?? [];
    this.unsure = fields.unsure ?? false;
  }

  /** True if the same request may succeed later. */
  get isTransient(): boolean {
    return TRANSIENT.has(this.code);
  }

  override toString(): string {
    return `${this.code}: ${this.message}${this.hint ? ` (${this.hint})` : ""}`;
  }
}

const TRANSIENT = new Set<string>([...TRANSIENT_CODES, "broker_unreachable", "request_timed_out", "reader_too_slow"]);

const BY_STATUS: Partial<Record<status, ErrorCode | ClientErrorCode>> = {
  [status.UNAVAILABLE]: "broker_unreachable",
  [status.DEADLINE_EXCEEDED]: "request_timed_out",
  [status.CANCELLED]: "cancelled",
  [status.UNAUTHENTICATED]: "unauthenticated",
  [status.PERMISSION_DENIED]: "permission_denied",
  [status.RESOURCE_EXHAUSTED]: "broker_overloaded",
};

/** Return the error of a call that failed; one without a code of the broker says nothing of what was carried out. */
export function errorOfCall(failure: unknown): GoQueueError {
  if (failure instanceof GoQueueError) return failure;
  const found = failure as Partial<ServiceError>;
  if (found.code === undefined || typeof found.code !== "number") {
    return new GoQueueError("unknown", String(found.message ?? failure), { cause: failure });
  }
  const fields: ErrorFields = { status: found.code, cause: failure };
  const info = readDetails(found.metadata, fields);
  if (info) {
    const { hint, ...details } = info.metadata ?? {};
    fields.details = details;
    if (hint) fields.hint = hint;
    return new GoQueueError(info.reason as ErrorCode, found.details ?? "", fields);
  }
  if (wasNeverSent(found)) {
    fields.hint = "is a broker running there, with --grpc-port? The option address or GOQUEUE_GRPC_ADDRESS names another one";
  } else {
    fields.unsure = found.code !== status.UNAUTHENTICATED && found.code !== status.PERMISSION_DENIED;
  }
  const message = (found.details || "the call failed").replace(/\. Resolution note: $/, "");
  return new GoQueueError(BY_STATUS[found.code] ?? "unknown", message, fields);
}

/** Return whether a call failed since there was no connection; gRPC says so by text only. */
export function wasNeverSent(failure: unknown): boolean {
  const { code, details = "" } = failure as Partial<ServiceError>;
  return code === status.UNAVAILABLE && /^(No connection established|Name resolution failed)/.test(details);
}

function readDetails(metadata: Metadata | undefined, fields: ErrorFields): ErrorInfo | undefined {
  const encoded = metadata?.get("grpc-status-details-bin")[0];
  if (!(encoded instanceof Uint8Array)) return undefined;
  let info: ErrorInfo | undefined;
  for (const { typeUrl = "", value = new Uint8Array() } of Status.decode(encoded).details ?? []) {
    if (typeUrl.endsWith("google.rpc.ErrorInfo")) {
      const found = ErrorInfo.decode(value);
      if (found.domain === "goqueue") info = found;
    } else if (typeUrl.endsWith("google.rpc.RetryInfo")) {
      fields.retryAfterMs = milliseconds(RetryInfo.decode(value).retryDelay);
    } else if (typeUrl.endsWith("google.rpc.BadRequest")) {
      const violations = BadRequest.decode(value).fieldViolations ?? [];
      fields.problems = violations.map((one) => ({ field: one.field ?? "", problem: one.description ?? "" }));
    }
  }
  return info;
}

/** Return the error of a part of a response. */
export function errorOfPart(found: ErrorMessage): GoQueueError {
  const { hint, ...details } = found.details ?? {};
  const fields: ErrorFields = { details };
  if (hint) fields.hint = hint;
  if (found.retryAfter) fields.retryAfterMs = milliseconds(found.retryAfter);
  return new GoQueueError((found.reason || "unknown") as ErrorCode, found.message ?? "", fields);
}

function milliseconds(duration: { seconds?: number | undefined; nanos?: number | undefined } | undefined): number {
  return (duration?.seconds ?? 0) * 1000 + (duration?.nanos ?? 0) / 1e6;
}
