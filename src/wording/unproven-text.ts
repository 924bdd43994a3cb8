import { wholeJson } from '../engine/prepare/canonical-json.ts';
import type { UnprovenListings } from '../sinks/run-report.ts';
import { counted, printable } from '../telemetry/format.ts';

type Doubt = UnprovenListings['doubt'];

/** Runs in a row with the same two numbers, after which it is the total that looks wrong. */
const runsBeforeAdvice = 3;

/** A line for each entity of which listings are not proven to be complete, and what to do about it. */
export function unprovenLines(unproven: readonly UnprovenListings[]): readonly string[] {
  return unproven.flatMap(({ entity, listings, params, doubt, runs }) => {
    const which = Object.keys(params).length === 0 ? '' : ` ${printable(wholeJson(params))}`;
    const more = listings === 1 ? '' : `; ${counted(listings - 1, 'more listing')} of it not proven`;
    return [`! ${entity}${which}: ${doubtText(doubt)}${more}`, ...adviceLines(entity, doubt, runs)];
  });
}

function doubtText(doubt: Doubt): string {
  return doubt.kind === 'total'
    ? `the API counts ${doubt.total} records and showed ${doubt.shown}`
    : 'the last page came again where the next one was expected, and nothing says that it is the last';
}

function adviceLines(entity: string, { kind }: Doubt, runs: number): readonly string[] {
  if (kind === 'repeats') {
    return [
      '  if the service ignores the parameter of the page, the rest is missing: see in its answer how it pages;',
      '  only if it is known to repeat its last page, say "end: repeats" in the pagination of the definition',
    ];
  }
  return runs < runsBeforeAdvice
    ? []
    : [`  ${runs} runs in a row: if its count is wrong, set "totals: ignore" for ${entity} in the config`];
}
