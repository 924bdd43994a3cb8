import * as z from 'zod';
import { SyncError } from '../core/errors.ts';
import { createSealer } from '../files/sealer.ts';
import type { SignInTokens } from './sign-in.ts';

const tokensShape = z.object({
  accessToken: z.string().min(1),
  refreshToken: z.string().min(1).nullable(),
  kept: z.record(z.string(), z.string()),
  app: z.string(),
});

/** Tokens as they are stored: JSON, sealed where there is a key. What was stored before there was one is still read. */
export function openSealed(connector: string, key: Buffer | null) {
  const again = `Sign in again: connector-sync login ${connector}.`;
  const damaged = `The stored sign-in of ${connector} is damaged. ${again}`;
  const sealer = createSealer(key, {
    purpose: 'sign-ins',
    otherKey: `The stored sign-in of ${connector} was sealed with another key than signIns.key of the config. Put that one back. Or: ${again}`,
    damaged,
  });
  const incompatible = (message: string): SyncError =>
    new SyncError(message, { code: 'SINK_INCOMPATIBLE', recovery: 'stop', context: { connector } });
  return {
    seal: (tokens: SignInTokens): string => {
      const text = JSON.stringify(tokensShape.parse(tokens));
      return key === null ? text : sealer.seal(text, connector).toString('base64');
    },
    open: (stored: string): SignInTokens => {
      const isPlain = stored.startsWith('{');
      if (!isPlain && key === null) {
        throw incompatible(
          `The stored sign-in of ${connector} is sealed, and the config has no signIns.key. Put the key back. Or: ${again}`,
        );
      }
      const text = isPlain ? stored : sealer.open(Buffer.from(stored, 'base64'), connector);
      try {
        return tokensShape.parse(JSON.parse(text));
      } catch {
        // What a parser says of it may hold a part of a token.
        throw incompatible(damaged);
      }
    },
  };
}
