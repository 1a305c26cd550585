// Confines a realm: only globals of the list remain, code can't be made from text, and nothing
// that a realm begins with can be changed. Returns the error of authors and, if the native verbs
// are passed, the database of an entry.
(function (raw) {
  'use strict';
  const allowed = new Set([
    'Object', 'Array', 'String', 'Number', 'Boolean', 'Symbol', 'BigInt', 'Math', 'JSON',
    'RegExp', 'Map', 'Set', 'WeakMap', 'WeakSet', 'Promise', 'Proxy', 'Reflect', 'Iterator',
    'ArrayBuffer', 'DataView', 'Int8Array', 'Uint8Array', 'Uint8ClampedArray', 'Int16Array',
    'Uint16Array', 'Int32Array', 'Uint32Array', 'BigInt64Array', 'BigUint64Array',
    'Float16Array', 'Float32Array', 'Float64Array', 'Error', 'EvalError', 'RangeError',
    'ReferenceError', 'SyntaxError', 'TypeError', 'URIError', 'AggregateError', 'parseInt',
    'parseFloat', 'isNaN', 'isFinite', 'decodeURI', 'decodeURIComponent', 'encodeURI',
    'encodeURIComponent', 'escape', 'unescape', 'Infinity', 'NaN', 'undefined', 'globalThis',
  ]);
  for (const name of Reflect.ownKeys(globalThis)) {
    if (!allowed.has(name)) delete globalThis[name];
  }
  delete Math.random;
  delete Error.prepareStackTrace;
  delete Error.stackTraceLimit;
  const kinds = [function () {}, function* () {}, async function () {}, async function* () {}];
  for (const kind of kinds) delete Object.getPrototypeOf(kind).constructor;

  class Failure extends Error {
    constructor(code, text) {
      super(text);
      this.code = code;
    }
  }
  globalThis.Failure = Failure;

  const rows = (cursor) => ({
    next() {
      const row = raw.next(cursor);
      return row === undefined ? { done: true, value: row } : { done: false, value: row };
    },
    return() {
      raw.close(cursor);
      return { done: true, value: undefined };
    },
    [Symbol.iterator]() {
      return this;
    },
  });
  const UNBOUNDED = 8;
  const bounded = (high, flags) => (high === undefined ? flags | UNBOUNDED : flags);
  const db = raw && {
    ...raw,
    REVERSE: 1,
    LOW_EXCLUSIVE: 2,
    HIGH_INCLUSIVE: 4,
    KEYS: 16,
    range(low = '', high = undefined, flags = 0, max = 0xffffffff) {
      return rows(raw.range(low, high ?? '', bounded(high, flags), max));
    },
    index(name, low = '', high = undefined, flags = 0, max = 0xffffffff) {
      return rows(raw.index(name, low, high ?? '', bounded(high, flags), max));
    },
  };
  if (db) {
    delete db.next;
    delete db.close;
  }

  const seen = new Set([globalThis]);
  const queue = [
    db,
    ...kinds,
    ...kinds.map((kind) => kind.prototype),
    [][Symbol.iterator](),
    ''[Symbol.iterator](),
    new Map()[Symbol.iterator](),
    new Set()[Symbol.iterator](),
    ''.matchAll(/x/g),
  ];
  const names = Reflect.ownKeys(globalThis);
  for (const name of names) queue.push(globalThis[name]);
  while (queue.length > 0) {
    const object = queue.pop();
    const kind = typeof object;
    if (object === null || (kind !== 'object' && kind !== 'function') || seen.has(object)) continue;
    seen.add(object);
    Object.freeze(object);
    queue.push(Object.getPrototypeOf(object));
    for (const key of Reflect.ownKeys(object)) {
      const property = Object.getOwnPropertyDescriptor(object, key);
      queue.push(property.value, property.get, property.set);
    }
  }
  for (const name of names) {
    const property = Object.getOwnPropertyDescriptor(globalThis, name);
    if (property.configurable) {
      Object.defineProperty(globalThis, name, { writable: false, configurable: false });
    }
  }
  // Old scripts declare no variables, and their functions share what they leave.
  if (db) Object.freeze(globalThis);
  return { db, Failure };
})
