import type { ConnectorSource } from '../../../app/app.ts';
import { hasCode, ThrottledError } from '../../../core/errors.ts';
import { probePage } from '../../../engine/probe-page.ts';
import type { ConnectorSettings } from '../../../settings/settings.ts';
import { count, counted } from '../../../telemetry/format.ts';
import { exitCodes } from '../../output/exit-codes.ts';
import { failed, passed, skipped, type CheckResult } from './check-result.ts';

/** Of the pages that all connectors are asked for. */
export interface PageTime {
  /** Aborted when no more pages are to be waited for. */
  readonly isOver: AbortSignal;
  readonly minutes: number;
}

/**
 * Asks each root entity of a connector for its first page, one after the other: a line for each that is not as the
 * definition says, and one for the others. Of entities below others nothing is known before their parents are read.
 */
export async function checkPages(
  { name, address, definition, entities }: ConnectorSettings,
  source: ConnectorSource,
  time: PageTime,
  signal: AbortSignal,
): Promise<readonly CheckResult[]> {
  const roots = [...definition.entities.values()].filter(
    (entity) => entities.has(entity.name) && entity.parents.length === 0,
  );
  const results: CheckResult[] = [];
  const within = AbortSignal.any([signal, time.isOver]);
  let sound = 0;
  let empty = 0;
  for (const [index, entity] of roots.entries()) {
    const what = `page of ${name}/${entity.name}`;
    const chosen = entities.get(entity.name) ?? { variants: [] };
    try {
      within.throwIfAborted();
      const asked = { expectsTotal: address.kind === 'direct', signal: within };
      const { records, problems } = await probePage(source, entity, chosen, asked);
      sound += Number(problems.length === 0);
      empty += Number(records === 0);
      results.push(...problems.map((detail) => warning(what, detail)));
    } catch (error) {
      signal.throwIfAborted();
      const why = time.isOver.aborted
        ? `the ${time.minutes} minutes for all pages are over`
        : error instanceof ThrottledError
          ? error.message
          : null;
      if (why !== null) {
        const rest = counted(roots.length - index, 'root entity', 'root entities');
        results.push(skipped(`pages of ${name}`, `${rest} not asked: ${why}`));
        break;
      }
      // A sync leaves it out and reads the others.
      const isForbidden = hasCode(error, 'FORBIDDEN');
      results.push(isForbidden ? warning(what, error.message) : failed(what, error));
    }
  }
  if (sound === 0) return results;
  const some = empty === 0 ? '' : `, ${count(empty)} of them empty`;
  const all = counted(sound, 'root entity', 'root entities');
  return [passed(`pages of ${name}`, `${all} answered as the definition says${some}`), ...results];
}

function warning(what: string, detail: string): CheckResult {
  return { what, state: 'warning', detail, exitCode: exitCodes.ok };
}
