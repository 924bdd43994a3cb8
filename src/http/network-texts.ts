/** What keeps a request from being answered, by the code of a system call or of undici. */
export const networkTexts: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection closed without a complete answer',
  EPIPE: 'connection closed without a complete answer',
  UND_ERR_SOCKET: 'connection closed without a complete answer',
  EAI_AGAIN: 'host name could not be looked up',
  EHOSTUNREACH: 'no route to the host',
  ENETUNREACH: 'no route to the network',
};

/** Another protocol is spoken there. An answer in HTTP that is cut off has other codes. */
export function saysNoHttp(code: string): boolean {
  return /^HPE_INVALID_(CONSTANT|VERSION|STATUS)$/.test(code);
}
