import { randomUUID } from 'node:crypto';
import type { ConnectorName } from '../../core/names.ts';
import type { WriteTx } from '../../sql/postgres/server.ts';
import type { PostgresTx as Tx } from '../../sql/postgres/session.ts';

/**
 * What may stand in `last_commit` while the connector is held: the token of the holder's newest commit that was
 * acknowledged, and those of the transactions that it has tried since. Where another one stands there, the server has
 * lost what it acknowledged.
 */
export type LastTokens = Set<string>;

/**
 * A token that the transaction has to write into the connector's counter, as `last_commit`: where its COMMIT is not
 * answered, what stands there says whether it was stored. The row is asked for with a lock, which waits for the
 * transaction where it still runs.
 */
export function newToken(tx: WriteTx, at: string, connector: ConnectorName, tokens: LastTokens): string {
  const token = randomUUID();
  tokens.add(token);
  tx.proveBy(async (later) => {
    const found = await later.first<{ isLast: boolean | null }>(
      `SELECT last_commit = :token::uuid AS is_last FROM ${at}_sync_counters WHERE connector = :connector FOR UPDATE`,
      { connector, token },
    );
    return found?.isLast === true;
  });
  return token;
}

/** The transaction with the newest token was stored. */
export function keepNewest(tokens: LastTokens): void {
  const newest = [...tokens].at(-1);
  tokens.clear();
  if (newest !== undefined) tokens.add(newest);
}

/** Numbers that a reader may have seen of commits which the server has lost. */
export const lostNumbers = 2 ** 32;

/**
 * Where the server was killed and has lost commits that it acknowledged to the holder of `epoch` (it did not wait for
 * its disk), the holder is overtaken, because what it believes to be stored is gone, and numbers of changes continue
 * above all that those commits may have had. True where it has.
 */
export async function overtakeIfLost(
  tx: Pick<Tx, 'run'>,
  at: string,
  {
    connector,
    epoch,
    tokens,
  }: { readonly connector: ConnectorName; readonly epoch: number; readonly tokens: LastTokens },
): Promise<boolean> {
  const raised = await tx.run(
    `UPDATE ${at}_sync_counters SET seq = seq + :lostNumbers, epoch = :epoch + 1
     WHERE connector = :connector AND epoch <= :epoch AND (last_commit = ANY(:tokens::uuid[])) IS NOT TRUE`,
    { connector, epoch, tokens: [...tokens], lostNumbers },
  );
  return raised > 0;
}
