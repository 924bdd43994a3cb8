import { SyncError } from '../../core/errors.ts';
import type { ConnectorName } from '../../core/names.ts';
import type { ConnectorOverview } from '../ledger-reader.ts';
import type { OpenHow, ServedLedger } from '../sink-access.ts';
import { readFreshness, readPause, readPauses } from '../ledger/history/read-runs.ts';
import { readLastRun, readOverview } from '../ledger/history/read-overview.ts';
import { openLedger, type PostgresPlace } from './open-ledger.ts';
import { findSink } from './open-schema.ts';
import type { PostgresTx as Tx } from '../../sql/postgres/session.ts';

type Overview = ReadonlyMap<ConnectorName, ConnectorOverview>;

/** What is remembered for the time while the server is out of reach is not older than this, as long as somebody asks. */
const rememberedMs = 10_000;

/** Opens the sink's ledger for days, and makes the sink where there is none. */
export async function openServedPostgres(place: PostgresPlace, how: OpenHow): Promise<ServedLedger> {
  const { server, sinkId } = await openLedger({ ...place, connections: 2 }, how);
  /** Why the sink is not there; null while it is. */
  let lostBecause: string | null = null;
  let known: { readonly text: string; readonly overview: Overview } = { text: '', overview: new Map() };
  let knownMs = -Infinity;

  /** The same object as long as it says the same. */
  const remember = async (tx: Tx): Promise<Overview> => {
    const all = await readOverview(tx);
    const text = JSON.stringify(all);
    if (text !== known.text) known = { text, overview: new Map(all.map((one) => [one.connector, one])) };
    knownMs = performance.now();
    return known.overview;
  };
  const lost = async (): Promise<string | null> => {
    try {
      lostBecause = await server.read(async (tx) => {
        const found = await findSink(tx, place.schema, server.place);
        if (found?.sinkId !== sinkId) {
          return `${found === null ? 'nothing' : 'another sink'} is at ${server.place}`;
        }
        if (performance.now() - knownMs > rememberedMs) await remember(tx);
        return null;
      });
    } catch (error) {
      lostBecause = textOf(error);
    }
    return lostBecause;
  };
  /** From the server or, while the sink is lost, from what was read last. */
  const answer = async <Result>(
    read: (tx: Tx) => Promise<Result>,
    remembered: (last: Overview) => Result,
  ): Promise<Result> => {
    if (lostBecause !== null) return remembered(known.overview);
    try {
      return await server.read(read);
    } catch (error) {
      if (!(error instanceof SyncError) || error.recovery !== 'retry') throw error;
      lostBecause = error.message;
      return remembered(known.overview);
    }
  };

  await lost();
  return {
    sinkId,
    lost,
    pause: (connector) =>
      answer(
        (tx) => readPause(tx, connector),
        (last) => last.get(connector)?.paused ?? null,
      ),
    paused: () =>
      answer(
        async (tx) => new Set((await readPauses(tx)).map(({ connector }) => connector)),
        (last) => new Set([...last.values()].flatMap((one) => (one.paused === null ? [] : [one.connector]))),
      ),
    lastRun: (connector) =>
      answer(
        (tx) => readLastRun(tx, connector),
        (last) => last.get(connector)?.lastRun ?? null,
      ),
    freshness: (connector) =>
      answer(
        (tx) => readFreshness(tx, connector),
        (last) => last.get(connector)?.freshness ?? [],
      ),
    overview: async () => {
      await lost();
      return await answer(remember, (last) => last);
    },
    problem: async () => {
      if ((await lost()) !== null) return null;
      try {
        await server.read(async (tx) => await readPauses(tx));
        return null;
      } catch (error) {
        return textOf(error);
      }
    },
    [Symbol.asyncDispose]: async () => await server[Symbol.asyncDispose](),
  };
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
