import { cancelledText, cancelRun, checkRunning, findRun } from '../app/find-run.ts';
import { queuedText } from '../app/control-connectors.ts';
import { checkPublishable, publishNow } from '../app/publish-target.ts';
import { connectorOfRun, hasWritten, undoneTexts, undoRun } from '../app/undo-run.ts';
import { usage } from '../core/usage-error.ts';
import { targetNamed } from '../settings/choices.ts';
import { count } from '../telemetry/format.ts';
import type { Prepare } from './prepared-act.ts';

/** What a person can do with a run or a target: by the functions of `cancel`, `undo` and the worker's queue. */
export const runActs = {
  cancel: async ({ run: id }, { settings, program, clock, signal }) => {
    const found = await findRun(settings, id, program);
    const { connector } = found.run;
    checkRunning(found.run);
    return {
      title: `Cancel the run of ${connector}`,
      says: [
        `Run ${id} of ${connector}, which started at ${found.run.startedAt}, stops at its next page.`,
        'What it stored stays, and the next run resumes from there. A scheduled connector runs again when its time comes, unless it is paused.',
      ],
      of: [id],
      back: `connectors/${connector}`,
      act: async ({ who, tell }) => {
        const ended = await cancelRun(found, { who, clock, signal });
        tell(cancelledText(found.run, ended));
      },
    };
  },
  undo: async ({ run: id }, { settings, program, clock, signal }) => {
    const found = await findRun(settings, id, program);
    const connector = connectorOfRun(settings, found);
    const written = (found.run.report?.entities ?? []).filter(hasWritten);
    if (written.length === 0) throw usage(`Run ${id} of ${connector.name} has changed nothing.`);
    const rows = written.map(
      ({ entity, deleted, counts: { inserted, updated } }) =>
        `${entity} (${count(inserted)} inserted, ${count(updated)} updated, ${count(deleted)} deleted)`,
    );
    return {
      title: `Undo a run of ${connector.name}`,
      says: [
        `Rows that run ${id} inserted are marked as deleted, rows that it deleted come back, and rows that it updated are restored where the history has them: up to ${rows.join(', ')}.`,
        'Rows that were changed since stay as they are. The next run reads what it inserted or updated again, in full.',
      ],
      of: [id],
      back: `runs/${id}`,
      act: async ({ who, tell }) => {
        const how = { clock, signal, who, command: 'connector-sync, from a page' };
        const { run, entities } = await undoRun(connector, found.run.run, how);
        for (const [entity, one] of entities) for (const line of undoneTexts(entity, one)) tell(`${line}.`);
        tell(
          entities.size === 0
            ? `${connector.name}: nothing that run ${id} did is left to undo.`
            : `This was run ${run ?? ''}.`,
        );
      },
    };
  },
  'publish-now': async ({ target: name }, { settings, program }) => {
    const target = targetNamed(settings, name);
    await checkPublishable(settings, target, program);
    const connectors = target.connectors.map((connector) => connector.name).join(', ');
    return {
      title: `Publish into ${name} now`,
      says: [
        `A worker publishes into ${name} what has changed since its last publication, of ${connectors}. It reads what is stored; no API is called.`,
      ],
      of: [name],
      back: `targets/${name}`,
      act: async ({ who, tell }) =>
        tell(`${name}: ${queuedText(await publishNow(settings, target, { by: who, program }))}.`),
    };
  },
} satisfies Record<string, Prepare>;
