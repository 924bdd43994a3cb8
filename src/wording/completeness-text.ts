import { wholeJson } from '../engine/prepare/canonical-json.ts';
import type { DoubtedListings, EntityReport } from '../sinks/run-report.ts';
import { counted, printable } from '../telemetry/format.ts';

export const completenessTexts: Readonly<Record<EntityReport['completeness'], string>> = {
  'not-yet': 'not yet',
  'part-missing': 'part missing',
  unconfirmed: 'unconfirmed',
  complete: 'yes',
};

type Doubt = DoubtedListings['doubt'];

/** Runs in a row with the same two numbers, after which it is the total that looks wrong. */
const runsBeforeAdvice = 3;

/** A line for each entity of which part is missing, and what to do about it. */
export function partMissingLines(partMissing: readonly DoubtedListings[]): readonly string[] {
  return partMissing.flatMap(({ entity, listings, params, doubt, runs }) => {
    const which = Object.keys(params).length === 0 ? '' : ` ${printable(wholeJson(params))}`;
    const more = listings === 1 ? '' : `; and part of ${counted(listings - 1, 'more listing')} of it`;
    return [`! ${entity}${which}: ${doubtText(doubt)}${more}`, ...adviceLines(entity, doubt, runs)];
  });
}

export function doubtText(doubt: Doubt): string {
  switch (doubt.kind) {
    case 'total':
      return `the API counts ${doubt.total} records and showed ${doubt.shown}`;
    case 'repeats':
      return 'the last page came again where the next one was expected, and nothing says that it is the last';
    case 'collision': {
      const [key, other] = [doubt.key, doubt.params].map((one) =>
        one === undefined ? 'one' : printable(wholeJson(one)),
      );
      return `records of one key with different content in several listings: ${key}, here and in ${other}`;
    }
    case 'cut':
      return `the service shows a part of the listing alone (${printable(doubt.by)})`;
    case 'shuffled':
      return 'many records came again on later pages: the service changes their order from call to call, and others are missed';
    case 'behind':
      return 'more rows of it are stored than came, and what follows its last page cannot be read: no row of it counts as deleted';
  }
}

function adviceLines(entity: string, doubt: Doubt, runs: number): readonly string[] {
  if (doubt.kind === 'collision') {
    const parts = [...Object.keys(doubt.params ?? {}), ...Object.keys(doubt.key ?? {})].join(', ');
    return [
      '  one row stands for all of them, so rows are missing: the key lacks what tells the listings apart. Write',
      `  key: [${printable(parts)}] in the definition, and "inject" of the parent fills what no record has`,
    ];
  }
  if (doubt.kind === 'cut') {
    return [
      '  what it shows is stored, later changes too; nothing is deleted. If it can sort the other way round, name',
      '  the parameters in "cut: { reversed }" of the definition; else read it in parts, such as by parents',
    ];
  }
  if (doubt.kind === 'repeats') {
    return [
      '  if the service ignores the parameter of the page, the rest is missing: see in its answer how it pages;',
      '  only if it is known to repeat its last page, say "end: repeats" in the pagination of the definition',
    ];
  }
  if (doubt.kind === 'behind') {
    return [
      `  if they are gone at the service: "connector-sync reset" of ${entity} makes the next sync read it as new. Its`,
      '  rows stay, and the guards ask before that many are marked as deleted',
    ];
  }
  return doubt.kind !== 'total' || runs < runsBeforeAdvice
    ? []
    : [`  ${runs} runs in a row: if its count is wrong, set "totals: ignore" for ${entity} in the config`];
}
