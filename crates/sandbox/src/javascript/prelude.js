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

  // Constructors, prototypes and namespaces are frozen, so none of their functions can be
  // replaced. The functions themselves are not walked: making them all takes a millisecond.
  const freezeChain = (object) => {
    for (; object && !Object.isFrozen(object); object = Object.getPrototypeOf(object)) {
      Object.freeze(object);
    }
  };
  const names = Reflect.ownKeys(globalThis);
  for (const name of names) {
    const value = globalThis[name];
    if (typeof value === 'function') freezeChain(value.prototype);
    if (value instanceof Object && value !== globalThis) freezeChain(value);
  }
  for (const kind of kinds) {
    freezeChain(Object.getPrototypeOf(kind));
    freezeChain(kind.prototype);
  }
  freezeChain([][Symbol.iterator]());
  freezeChain(''[Symbol.iterator]());
  freezeChain(new Map()[Symbol.iterator]());
  freezeChain(new Set()[Symbol.iterator]());
  freezeChain(''.matchAll(/x/g));
  freezeChain([].values().map(() => 0));
  freezeChain(db);
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
