import { AttemptTimeoutError, UnreadableBodyError } from './read-body.ts';

const closedText = 'connection closed without a complete answer';
const knownTexts: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  EAI_AGAIN: 'host name could not be looked up',
  EHOSTUNREACH: 'no route to the host',
  ENETUNREACH: 'no route to the network',
};

/** By a code, the first that fits; an answer in HTTP that is cut off has other codes than one that is no HTTP. */
const kindByCode = [
  [
    /EXCEEDED_MAX_SIZE|HEADERS_OVERFLOW|HPE_HEADER_OVERFLOW/,
    'tooLarge',
    'expected headers within the size limit, got larger ones',
  ],
  [/^UND_ERR_(DESTROYED|CLOSED)$/, 'closed', 'the client was closed during the call'],
  [/CERT|SELF_SIGNED|ERR_TLS|ERR_SSL|EPROTO|UNABLE_TO_(VERIFY|GET)/, 'tls', 'no trusted TLS connection'],
  [/^Z_/, 'unreadable', 'the gzip body is cut or damaged'],
  [/^ENOTFOUND$/, 'name', 'host name not found'],
  [/^HPE_INVALID_(CONSTANT|VERSION|STATUS)$/, 'noHttp', 'the answer is not HTTP'],
  [/^(ECONNRESET|EPIPE|UND_ERR_SOCKET)$/, 'cut', closedText],
  [/^UND_ERR_(CONNECT|HEADERS|BODY)_TIMEOUT$|^ETIMEDOUT$/, 'timeout', 'no answer in time'],
  [
    /^HPE_|^HTTPParserError$|^UND_ERR_(?!INVALID|NOT_SUPPORTED|REQ_)|^E[A-Z]+$|^EAI_|^ERR_STREAM_/,
    'other',
    'not reached, or the answer was cut off',
  ],
] as const;

/** What kept a request from an answer that can be read. */
interface NetworkFault {
  /**
   * `slow`: the whole answer took too long; `timeout`: a part of it. `address`: it may not be connected to. `closed`:
   * the client was closed. `name`: no such host. `noHttp`: another protocol is spoken there. `cut`: the connection was
   * closed, mostly an idle one that the server had closed before the request reached it.
   */
  readonly kind: (typeof kindByCode)[number][1] | 'slow' | 'address' | 'unreachable';
  /** Of the system call, of TLS or of undici; else the error's name. */
  readonly code: string;
  /** For a message: it repeats no bytes, headers or addresses of the service. */
  readonly text: string;
}

const proxies = new WeakMap<Error, string>();

/** The request went through a proxy, which may be what failed. */
export function noteProxy(error: unknown, { host }: URL): void {
  if (error instanceof Error) proxies.set(error, host);
}

/** Null for what is no failure of a request. The error itself is not kept: it may hold headers. */
export function networkFaultOf(error: unknown): NetworkFault | null {
  if (!(error instanceof Error)) return null;
  const proxy = proxies.get(error);
  const fault = faultOf(error);
  if (fault === null || proxy === undefined || fault.kind === 'address') return fault;
  const [, status] = /^Proxy response \((\d+)\)/.exec(error.message) ?? [];
  return status === undefined
    ? { ...fault, text: `${fault.text}, through the proxy ${proxy}` }
    : { ...fault, kind: 'unreachable', text: `the proxy ${proxy} answered HTTP ${status}` };
}

function faultOf(error: Error): NetworkFault | null {
  const code = 'code' in error && typeof error.code === 'string' ? error.code : error.name;
  const { message } = error;
  if (error instanceof AttemptTimeoutError) return { kind: 'slow', code, text: message };
  if (code === 'ERR_ADDRESS_REFUSED') return { kind: 'address', code, text: message };
  if (error instanceof UnreadableBodyError) {
    return { kind: error.fault === 'too-large' ? 'tooLarge' : 'unreadable', code, text: message };
  }
  const known = knownTexts[code];
  if (known !== undefined) return { kind: 'unreachable', code, text: known };
  const [, kind, text] = kindByCode.find(([codes]) => codes.test(code)) ?? [];
  return kind === undefined || text === undefined ? null : { kind, code, text };
}
