import type { Clock } from '../core/clock.ts';
import type { OnRunEvent } from '../core/events.ts';
import type { ConnectorName } from '../core/names.ts';
import type { Log } from '../telemetry/log.ts';

const tellEveryMs = 60_000;

/** A run of hours is not silent at info: once a minute it says how far it is. */
export function tellProgress(log: Pick<Log, 'info'>, connector: ConnectorName, clock: Clock): OnRunEvent {
  let toldMs = clock.now();
  let [pages, records] = [0, 0];
  return (event) => {
    if (event.kind !== 'page-committed') return;
    pages += 1;
    records += event.counts.fetched;
    if (clock.now() - toldMs < tellEveryMs) return;
    toldMs = clock.now();
    log.info({ connector, entity: event.entity, pages, records }, 'run in progress');
  };
}
