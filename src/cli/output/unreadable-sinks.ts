import type { UnreadableSink } from '../../app/connector-states.ts';
import { counted } from '../../telemetry/progress-text.ts';
import { errorDocument } from './report-error.ts';

/** The sinks that a list of connectors could not read, in its JSON. */
export function unreadableSinkDocuments(unreadable: readonly UnreadableSink[]): readonly object[] {
  return unreadable.map(({ sink, connectors, error }) => ({
    sink: sink.name,
    connectors: connectors.map(({ name }) => name),
    error: errorDocument(error),
  }));
}

/** The same, below the list. */
export function unreadableSinkLines(unreadable: readonly UnreadableSink[]): readonly string[] {
  return unreadable.map(
    ({ sink, connectors, error }) =>
      `Not shown: ${counted(connectors.length, 'connector')} of the sink "${sink.name}". ${error.message}`,
  );
}
