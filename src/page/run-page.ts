import { html } from '@remix-run/html-template';
import type { newestActions } from '../app/find-run.ts';
import { hasWritten } from '../app/undo-run.ts';
import type { RunSummary } from '../sinks/ledger-reader.ts';
import type { RunReport } from '../sinks/run-report.ts';
import { count, duration, printable } from '../telemetry/format.ts';
import { actionDetail } from '../wording/connector-text.ts';
import { deleteLines, failureText, runFacts, runTable } from '../wording/run-report-table.ts';
import { actLink, age, runState, moment, facts, page, type PageWorld, textLines, table } from './layout.ts';
import { tookMs } from './bars.ts';

const root = '../';

/** One run: its report as a table, what failed and what to do. */
export function runPage(run: RunSummary, sink: string, world: PageWorld): string {
  const { connector, kind, report, continues } = run;
  const ms = tookMs(run);
  const isToUndo = report?.entities.some(hasWritten) === true;
  const main = html`<h1><a href="${root}connectors/${connector}">${connector}</a> ${runState(run.state)}</h1>
    <p class="acts">
      ${run.state === 'running' ? actLink(world, root, ['cancel', 'Cancel'], { run: run.run }) : ''}
      ${isToUndo ? actLink(world, root, ['undo', 'Undo'], { run: run.run }) : ''}
    </p>
    ${facts([
      ['Run', html`<code>${run.run}</code>`],
      ['Kind', kind],
      ['Sink', sink],
      ['Started', moment(run.startedAt, world.nowMs)],
      ['Ended', run.finishedAt === null ? null : moment(run.finishedAt, world.nowMs)],
      ['Took', ms === null ? null : duration(ms)],
      ['Resumed', continues === null ? null : html`<a href="${root}runs/${continues}">${continues}</a>`],
    ])}
    ${report === null ? withoutReport(run) : reportSections(report, world.program)}`;
  return page(
    { title: `${connector}: ${run.state}`, root, at: 'runs', main, isLive: run.state === 'running' },
    world,
  );
}

function withoutReport({ state, connector }: RunSummary) {
  return state === 'running'
    ? html`<p>
        It is in progress; <a href="${root}connectors/${connector}">${connector}</a> shows how far it is.
      </p>`
    : html`<p>
        Its process ended without a report. What it stored is kept; the next run resumes from there.
      </p>`;
}

function reportSections(report: RunReport, program: string) {
  const { columns, rows } = runTable(report, true);
  const { error, failures, failuresOmitted, connector } = report;
  const deletes = deleteLines(report, program);
  return html`${
    error === null
      ? ''
      : html`<section class="callout bad" aria-label="Why it failed">
          <p><strong>${error.code}</strong> ${printable(error.message)}</p>
          <p>
            ${
              error.recovery === 'retry'
                ? 'The next run tries again by itself.'
                : html`It does not heal by itself: <code>${program} check ${connector}</code> says more, and
                    once it is put right, <code>${program} sync ${connector}</code> resumes from what is
                    stored.`
            }
          </p>
        </section>`
  }
  ${
    rows.length === 0
      ? ''
      : html`<h2>What it did</h2>
          ${table(
            'What it did',
            columns.map(({ title, align }) => [title, align === 'right' ? 'num' : ''] as const),
            rows.map((row) => row.map((cell) => printable(cell))),
          )}`
  }
  ${textLines(runFacts(report))}
  ${
    deletes.length === 0
      ? ''
      : html`<h2>Deletes</h2>
          ${textLines(deletes)}`
  }
  ${
    failures.length === 0
      ? ''
      : html`<h2>What failed</h2>
          <p>
            Everything else is stored. What failed is read again by the next run; for codes that stay the
            same,
            <code>${program} check ${connector}</code> says more.
          </p>
          <ul>
            ${failures.map((failure) => html`<li>${printable(failureText(failure))}</li>`)}
          </ul>
          ${failuresOmitted === 0 ? '' : html`<p>and ${count(failuresOmitted)} more</p>`}`
  }`;
}

const columns = ['when', 'who', 'what', 'connector', 'details'];

/** Actions of people on any connector or target, newest first. */
export function actionsPage(
  { actions, unreadable }: Awaited<ReturnType<typeof newestActions>>,
  world: PageWorld,
): string {
  const rows = actions.map((action) => {
    const { at, who, connector, entity, run } = action;
    const details = [entity ?? '', actionDetail(action)].filter((text) => text !== '').join(', ');
    return [
      age(at, world.nowMs),
      printable(who),
      action.action,
      connector === null ? '' : html`<a href="connectors/${connector}">${connector}</a>`,
      html`${printable(details)} ${run === null ? '' : html`<a href="runs/${run}">run</a>`}`,
    ];
  });
  const main = html`<h1>Actions</h1>
    <p>What people did, by commands and on these pages. Kept for 400 days.</p>
    ${unreadable.map(({ message }) => html`<p class="callout bad">${printable(message)}</p>`)}
    ${rows.length === 0 ? html`<p>Nothing was done by hand yet.</p>` : table('Actions', columns, rows)}`;
  return page({ title: 'Actions', root: './', at: 'actions', main, isLive: false }, world);
}
