import { once } from 'node:events';
import { writeSync } from 'node:fs';
import { systemClock } from '../../../src/core/clock.ts';
import type { ConnectorName, EntityName } from '../../../src/core/names.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../../src/definitions/load-definitions.ts';
import { openSink } from '../../../src/sinks/registry.ts';
import type { ResetScope } from '../../../src/sinks/requests.ts';
import type { Sink } from '../../../src/sinks/sink-access.ts';
import { StoppedError, stopAtStep } from '../../support/stop-at-step.ts';
import { entityNamed, syncOnce } from '../../support/sync-once.ts';
import { laterMsPerRevision, type RecordedSteps, type ToldLine } from './recording.ts';

const { definition: name, sink: options, steps, ...api } = JSON.parse(process.argv[2] ?? '') as RecordedSteps;
const definition = loadDefinitions([builtInDefinitionsFolder]).get(name);
if (definition === undefined) throw new Error(`no definition ${name}`);

let laterMs = 0;
const clock = { ...systemClock, now: () => Date.now() + laterMs };
let kept: Sink | null = null;
for (const { revision, isFull, stopAt = Number.MAX_SAFE_INTEGER, isSameSink = false, resets } of steps) {
  process.send?.(revision);
  await once(process, 'message');
  laterMs = revision * laterMsPerRevision;
  tell({ kind: 'step-begins', revision });
  if (isSameSink) kept ??= await openSink(options, { clock });
  const sink = kept;
  if (resets !== undefined) await sink?.repair.reset(name as ConnectorName, allOf(resets));
  const stop = stopAtStep(stopAt);
  await syncOnce({
    ...api,
    definition,
    sink: options,
    clock,
    run: { isFull },
    onEvent: tell,
    wrapSource: stop.wrapSource,
    wrapSink: (own) => stop.wrapSink(sink ?? own),
  }).catch((error: unknown) => {
    if (!(error instanceof StoppedError)) throw error;
  });
}
await kept?.[Symbol.asyncDispose]();
process.disconnect();

/** Standard output is a file here: what is reported is in order with what is written. */
function tell(line: ToldLine): void {
  writeSync(1, `${JSON.stringify(line)}\n`);
}

function allOf(entity: string): ResetScope {
  if (definition === undefined) throw new Error(`no definition ${name}`);
  const { table, explodedTable } = entityNamed(definition, entity);
  const tables = explodedTable === null ? [table] : [table, explodedTable];
  return { entity: entity as EntityName, tables, withData: true, now: new Date(clock.now()).toISOString() };
}
