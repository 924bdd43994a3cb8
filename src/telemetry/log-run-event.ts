import type { RunEvent } from '../core/events.ts';
import type { ConnectorName } from '../core/names.ts';
import type { Log } from './log.ts';

type Level = 'debug' | 'info' | 'warn' | 'error';

/** One log line per event: `event` names it, its facts are fields, and the level shows how urgent it is. */
export function logRunEvent(log: Log, connector: ConnectorName, event: RunEvent): void {
  const { kind, ...facts } = event;
  log[levelOf(event)]({ connector, event: kind, ...facts }, kind.replaceAll('-', ' '));
}

function levelOf(event: RunEvent): Level {
  switch (event.kind) {
    case 'run-started':
    case 'sweep-started':
    case 'rows-deleted':
    case 'files-started':
    case 'sink-back':
      return 'info';
    case 'run-finished':
      return levelByOutcome(event.outcome);
    case 'walk-set-aside':
    case 'listings-unproven':
    case 'walk-restarted':
    case 'call-retried':
    case 'throttled':
    case 'deletes-withheld':
    case 'file-set-aside':
    case 'sink-away':
      return 'warn';
    case 'walk-started':
    case 'walk-sealed':
    case 'page-requested':
    case 'page-fetched':
    case 'page-committed':
    case 'page-dropped':
    case 'commit-started':
    case 'commit-finished':
    case 'call-ended':
    case 'record-confirmed':
    case 'file-stored':
      return 'debug';
  }
}

function levelByOutcome(outcome: string): Level {
  if (outcome === 'failed') return 'error';
  return outcome === 'degraded' ? 'warn' : 'info';
}
