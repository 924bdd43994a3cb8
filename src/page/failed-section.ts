import { html, type SafeHtml } from '@remix-run/html-template';
import { failureLimit, type StoredConnector } from '../app/read-statuses.ts';
import { grouped } from '../core/grouped.ts';
import { count, counted, printable } from '../telemetry/format.ts';
import { failureText } from '../wording/run-report-table.ts';
import { exactly } from './layout.ts';

type Failed = StoredConnector['failures'][number] | StoredConnector['fileFailures'][number];

/** What the next run tries again, and what is in quarantine. */
export function failedSection({ status, failures, fileFailures, quarantine }: StoredConnector): SafeHtml {
  const failed = [...likeOnes(failures, ''), ...likeOnes(fileFailures, 'file of ')];
  return html`${
    failed.length === 0
      ? ''
      : html`<h2>Failed, to be tried again</h2>
          <ul>
            ${failed.map(({ at, text }) => html`<li>${printable(text)} <span class="faint">${exactly(at)}</span></li>`)}
          </ul>
          ${[failures, fileFailures].some(({ length }) => length === failureLimit) ? html`<p class="faint">There may be more.</p>` : ''}`
  }
  ${
    quarantine.length === 0
      ? ''
      : html`<h2>Quarantine</h2>
          <p>
            ${counted(
              (status?.entities ?? []).reduce((sum, one) => sum + one.quarantined, 0),
              'record',
            )},
            kept whole in the table <code>_sync_quarantine</code>. The newest:
          </p>
          <ul>
            ${quarantine.map(({ entity, reason, detail }) => html`<li>${entity} ${printable(`${reason}: ${detail}`)}</li>`)}
          </ul>`
  }`;
}

/** Failures that differ in nothing but what was read, as one. */
function likeOnes(failures: readonly Failed[], what: string) {
  const groups = grouped(
    failures,
    ({ entity, failure: { code, message } }) => `${entity} ${code} ${message}`,
  );
  return [...groups.values()].flatMap(([first, ...others]) => {
    if (first === undefined) return [];
    const { failure, ...of } = first;
    const more = others.length === 0 ? '' : `, and ${count(others.length)} more like it`;
    return [{ at: failure.at, text: `${what}${failureText({ ...of, ...failure })}${more}` }];
  });
}
