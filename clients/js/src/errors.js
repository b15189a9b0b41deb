// The errors of this library, all of them NeardupError.

export class NeardupError extends Error {
  constructor(message) {
    super(message);
    this.name = this.constructor.name;
  }
}

/** An argument that can't be. */
export class ParameterError extends NeardupError {}

/** Bytes that are not what they should be. */
export class FormatError extends NeardupError {}

/** Two things that were made by different specifications. */
export class SpecMismatch extends NeardupError {}

/** A text without anything visible, which neardup rejects. */
export class EmptyText extends NeardupError {}

/** A request that the service has refused. */
export class ServiceError extends NeardupError {
  /**
   * @param {number} status of HTTP
   * @param {{error?: string, message?: string, request_id?: string}} body
   * @param {number | null} retryAfter seconds
   */
  constructor(status, body, retryAfter) {
    super(body.message ?? `the service answered ${status}`);
    this.status = status;
    this.code = body.error ?? "";
    this.requestId = body.request_id ?? "";
    this.retryAfter = retryAfter;
  }
}
