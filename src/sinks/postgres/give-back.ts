import type { Server } from '../../sql/postgres/server.ts';
import { vacuumTables } from '../../sql/postgres/vacuum-tables.ts';
import { valuedTables } from '../ledger/purges/valued-tables.ts';
import { toSinkError } from './sink-error.ts';

/** `LedgerDriver.giveBack`. */
export async function giveBack(
  server: Pick<Server, 'connect' | 'place'>,
  schema: string,
  tables: readonly string[],
): Promise<void> {
  const explain = (error: unknown): unknown => toSinkError(error, server.place);
  await vacuumTables(server, { schema, tables: [...tables, ...valuedTables], explain });
}
