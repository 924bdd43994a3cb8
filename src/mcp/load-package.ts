import type * as server from '@modelcontextprotocol/server';
import type * as stdio from '@modelcontextprotocol/server/stdio';
import { SyncError } from '../core/errors.ts';

/** The official implementation of the protocol, an optional package. Throws PACKAGE_MISSING. */
export async function loadPackage(): Promise<typeof server & typeof stdio> {
  try {
    const [own, ofStdio] = await Promise.all([
      import('@modelcontextprotocol/server'),
      import('@modelcontextprotocol/server/stdio'),
    ]);
    return { ...own, ...ofStdio };
  } catch (cause) {
    const isMissing = cause instanceof Error && 'code' in cause && cause.code === 'ERR_MODULE_NOT_FOUND';
    if (!isMissing) throw cause;
    throw new SyncError(
      'mcp needs the package @modelcontextprotocol/server, which is not installed. Install it beside this program: npm install @modelcontextprotocol/server',
      { code: 'PACKAGE_MISSING', recovery: 'stop' },
    );
  }
}
