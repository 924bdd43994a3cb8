import type { SinkPlace } from '../sinks/sink-access.ts';
import type { Server } from '../sql/postgres/server.ts';
import { cellOf, type Tx } from '../sql/database.ts';
import { signInsSql } from './sign-in-rows.ts';
import type { SignInDriver } from './sign-in.ts';

/** One table in the schema of the sink, which is made with the first sign-in. The sink must exist by then. */
export function postgresSignIns(place: Extract<SinkPlace, { readonly type: 'postgres' }>): SignInDriver {
  let opening: Promise<Server> | null = null;
  let isMade = false;
  return {
    open: async (makes) => {
      const server = await (opening ??= openServerOf(place));
      if (isMade) return server;
      isMade = makes ? await make(server) : await server.read(isThere);
      return isMade ? server : null;
    },
    now: async (tx) =>
      Math.floor(
        (await cellOf<number>(tx, 'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8')) ?? 0,
      ),
    [Symbol.asyncDispose]: async () => {
      const server = await opening?.catch(() => null);
      await server?.[Symbol.asyncDispose]();
    },
  };
}

/** The client library is loaded here. */
async function openServerOf(place: Parameters<typeof postgresSignIns>[0]): Promise<Server> {
  const { openServer } = await import('../sql/postgres/server.ts');
  const { toSinkError } = await import('../sinks/postgres/sink-error.ts');
  return openServer({ ...place, connections: 2, explain: toSinkError, durability: 'full' });
}

async function isThere(tx: Tx): Promise<boolean> {
  return (await cellOf<boolean>(tx, "SELECT to_regclass('_sync_sign_ins') IS NOT NULL AS is_there")) === true;
}

async function make(server: Server): Promise<boolean> {
  return await server.transact(async (tx) => {
    // Two that make a table at once would fail, whatever IF NOT EXISTS says.
    await tx.run("SELECT pg_advisory_xact_lock(hashtextextended('connector-sync sign-ins', 0))");
    await tx.run(signInsSql);
    return true;
  });
}
