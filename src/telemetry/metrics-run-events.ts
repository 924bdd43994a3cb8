import type { Registry } from 'prom-client';
import type { Clock } from '../core/clock.ts';
import type { ErrorCode } from '../core/errors.ts';
import type { RunEvent } from '../core/events.ts';
import type { ConnectorName } from '../core/names.ts';
import { oneOf, type NameLabels } from './metrics-labels.ts';
import { openRunMetrics } from './metrics-of-runs.ts';

export interface RunCounts {
  onRunEvent(connector: ConnectorName, event: RunEvent): void;
  runEnded(connector: ConnectorName, outcome: string): void;
  /** Shows a connector's counters from zero on: a rate cannot see a counter that begins at one. */
  know(connector: string): void;
}

const outcomes = ['ok', 'partial', 'degraded', 'failed', 'interrupted'];
const outcomeLabel = oneOf(outcomes);
const answerLabel = oneOf([
  'ok',
  'retry',
  'throttle',
  'smaller-page',
  'restart-walk',
  'skip-partition',
  'skip-entity',
  'stop',
  'refresh-auth',
]);
const changes = ['inserted', 'updated', 'unchanged', 'duplicate', 'filtered', 'quarantined'] as const;
/** The wait before such a retry is spent in the budget, and counted when the next attempt has ended. */
const waitedForInBudget: readonly ErrorCode[] = ['THROTTLED', 'FORBIDDEN'];

/** Counts what runs say about themselves. The connector of an event is the one it is handed in with. */
export function countRunEvents(registry: Registry, names: NameLabels, clock: Clock): RunCounts {
  const metrics = openRunMetrics(registry);
  const startedMsByConnector = new Map<string, number>();

  const started = (connector: string): void => {
    startedMsByConnector.set(connector, clock.now());
    metrics.running.set({ connector }, 1);
    metrics.inFlight.set({ connector }, 0);
  };

  const ended = (connector: string): void => {
    metrics.running.set({ connector }, 0);
    metrics.inFlight.set({ connector }, 0);
  };

  return {
    onRunEvent(name, event) {
      const connector = names.connector(name);
      switch (event.kind) {
        case 'run-started':
          return started(connector);
        case 'run-finished':
          metrics.runDuration.observe({ connector }, seconds(event.ms));
          return ended(connector);
        case 'page-fetched':
          return metrics.inFlight.inc({ connector }, event.bytes);
        case 'page-dropped':
          return metrics.inFlight.dec({ connector }, event.bytes);
        case 'page-committed': {
          const entity = names.entity(event.entity);
          metrics.inFlight.dec({ connector }, event.bytes);
          // An entity made of another one's elements comes without a page, and without bytes, of its own.
          if (event.bytes > 0) metrics.pages.inc({ connector, entity });
          for (const change of changes)
            metrics.records.inc({ connector, entity, change }, event.counts[change]);
          return;
        }
        case 'call-ended':
          metrics.requests.inc({ connector, answer: answerLabel(event.answer) });
          metrics.requestDuration.observe({ connector }, seconds(event.ms));
          return metrics.waited.inc({ connector }, seconds(event.waitedMs));
        case 'call-retried':
          metrics.retries.inc({ connector, code: event.code });
          if (!waitedForInBudget.includes(event.code))
            metrics.waited.inc({ connector }, seconds(event.waitMs));
          return;
        case 'throttled':
          return metrics.throttled.inc({ connector });
        case 'walk-set-aside':
          return metrics.setAside.inc({ connector, entity: names.entity(event.entity), code: event.code });
        case 'rows-deleted':
          return metrics.deleted.inc({ connector, entity: names.entity(event.entity) }, event.rows);
        case 'file-stored': {
          const entity = names.entity(event.entity);
          metrics.files.inc({ connector, entity, result: 'stored' });
          return metrics.fileBytes.inc({ connector, entity }, event.bytes);
        }
        case 'file-set-aside':
          return metrics.files.inc({ connector, entity: names.entity(event.entity), result: 'failed' });
        case 'files-started':
        case 'sweep-started':
        case 'record-confirmed':
        case 'deletes-withheld':
        case 'walk-started':
        case 'walk-restarted':
        case 'walk-sealed':
        case 'page-requested':
        case 'commit-started':
        case 'commit-finished':
      }
    },
    runEnded(name, outcome) {
      const connector = names.connector(name);
      const labels = { connector, outcome: outcomeLabel(outcome) };
      // A run that could not begin started when it ended.
      const startedMs = startedMsByConnector.get(connector) ?? clock.now();
      startedMsByConnector.delete(connector);
      metrics.runs.inc(labels);
      metrics.lastRun.set(labels, startedMs / 1000);
      ended(connector);
    },
    know(name) {
      const connector = names.connector(name);
      for (const outcome of outcomes) metrics.runs.inc({ connector, outcome }, 0);
      metrics.running.inc({ connector }, 0);
      metrics.inFlight.inc({ connector }, 0);
      metrics.throttled.inc({ connector }, 0);
      metrics.waited.inc({ connector }, 0);
    },
  };
}

/** A clock that is set back must not make a counter refuse: who tells of a run would get the error. */
function seconds(ms: number): number {
  return Math.max(0, ms) / 1000;
}
