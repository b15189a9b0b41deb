// neardup in JavaScript: texts to the signatures that neardup makes, in Node and browsers.

export {
  EmptyText, FormatError, NeardupError, ParameterError, ServiceError, SpecMismatch,
} from "./src/errors.js";
export { Key } from "./src/key.js";
export { BBitMinHash, MinHash } from "./src/minhash.js";
export { Service } from "./src/service.js";
export { Sketcher } from "./src/sketcher.js";
export { Spec } from "./src/spec.js";
