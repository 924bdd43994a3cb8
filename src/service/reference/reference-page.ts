import { createHash } from 'node:crypto';
import { html, type SafeHtml } from '@remix-run/html-template';
import type { Definition } from '../../definitions/definition.ts';
import type { Endpoint, Reference } from '../routes/endpoint.ts';
import { type ConnectorType, openApiDocument, type OpenApiDocument } from './open-api-document.ts';
import { everywhereTable, type Listed, operationSections, requiredMark, table } from './operation-section.ts';

/** The document as one page of HTML, complete in itself. */
export function referencePage(document: OpenApiDocument, baseUrl: string): string {
  const listed = Object.entries(document.paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => ({ method, path, operation })),
  );
  const groups = document.tags.map((tag) => ({
    ...tag,
    listed: listed.filter(({ operation }) => operation.tags.includes(tag.name)),
  }));
  const { title, description } = document.info;
  const section = operationSections(document, baseUrl);
  return `<!doctype html>\n${String(
    html`<html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>${title}</title>
        ${html.raw`<style>${pageStyle}</style>`}
      </head>
      <body>
        <div class="page">
          <nav aria-label="Endpoints">
            <a href="#top"><strong>${title}</strong></a>
            <p><a href="/connectors">Connectors and their readiness</a></p>
            ${groups.map(
              ({ name, listed: inGroup }) =>
                html`<h2>${name}</h2>
                  <ul>
                    ${inGroup.map(menuEntry)}
                  </ul> `,
            )}
          </nav>
          <main id="top">
            <h1>${title}</h1>
            <p>${description} The same for tools: <a href="/openapi.json">/openapi.json</a>.</p>
            ${start(baseUrl)}
            ${groups.map(
              (group) =>
                html`<h2 id="${group.name}">${group.name}</h2>
                  <p>${group.description}</p>
                  ${group.listed.map(section)}
                  ${group.name === 'Execute' ? document['x-connector-types'].map(connectorTypeSection) : ''}`,
            )}
          </main>
        </div>
      </body>
    </html> `,
  )}`;
}

function menuEntry({ method, operation }: Listed): SafeHtml {
  return html`<li>
    <span class="method ${method}">${method === 'delete' ? 'DEL' : method.toUpperCase()}</span>
    <a href="#${operation.operationId}">${operation.summary}</a>
  </li> `;
}

function start(baseUrl: string): SafeHtml {
  const token = `TOKEN=$(curl -s '${baseUrl}/api/v1/account/applications/token' \\
  -H 'Content-Type: application/json' \\
  -d '{"client_id":"'"$CLIENT_ID"'","client_secret":"'"$CLIENT_SECRET"'"}' | jq -r .access_token)`;
  return html`<p>
      All endpoints except the token endpoint and this reference need a token. The examples below take it from
      <code>$TOKEN</code>:
    </p>
    <pre><code>${token}</code></pre>
    <p>
      Errors look like
      <code>{"message": …, "errors": [{"field", "message", "error_code", "details"}]}</code> and a status
      code. Each endpoint lists its own; these come everywhere:
    </p>
    ${everywhereTable()}`;
}

type TypeAction = ConnectorType['actions'][number];

/** The entities and actions of a connector type with their parameters, folded away until it is wanted. */
function connectorTypeSection({ name, title, actions }: ConnectorType): SafeHtml {
  return html`<details id="type-${name}">
    <summary>Entities and actions of ${title} (<code>${name}</code>)</summary>
    ${table('actions', actions.map(actionCells))}
  </details> `;
}

function actionCells({ entity, action, params, fields }: TypeAction) {
  return [
    html`<code>${entity}</code>`,
    html`<code>${action}</code>`,
    html`${params.map(paramText)}
    ${fields.length > 0 ? html`<div class="type">Fields: ${fields.join(', ')}</div>` : ''}`,
  ];
}

function paramText({
  name,
  type,
  required,
  enum: values,
  maximum,
  default: preset,
}: TypeAction['params'][number]): SafeHtml {
  const facts = [
    values === null ? type : values.join(' or '),
    ...(preset === null ? [] : [`default ${String(preset)}`]),
    ...(maximum === null ? [] : [`at most ${maximum}`]),
  ];
  return html`<div>
    <code>${name}</code> <span class="type">${facts.join(', ')}</span> ${required ? requiredMark : ''}
  </div> `;
}

export function makeReference(endpoints: readonly Endpoint[], definitions: Iterable<Definition>): Reference {
  const document = openApiDocument(endpoints, definitions);
  return {
    document: JSON.stringify(document, null, 2),
    page: (baseUrl) => referencePage(document, baseUrl),
    contentSecurityPolicy: `default-src 'none'; style-src '${pageStyleHash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  };
}

/**
 * Light and dark by the reader's choice; the list of endpoints stands beside the text where there is room. On a narrow
 * screen tables keep a width that can be read and are scrolled; a shade at the right edge says that more follows.
 */
const pageStyle = `
:root { color-scheme: light dark; --ink: #1c2430; --quiet: #5b6675; --ground: #fff; --raised: #f5f7fa; --line: #dde3ea; --shade: #b9c4d1;
  --link: #0b5cad; --get: #1a6f4b; --post: #0b5cad; --put: #8a5a00; --delete: #b0271f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e9f0; --quiet: #9aa7b8; --ground: #12161c; --raised: #1b212a;
  --line: #2d3642; --shade: #4a586a; --link: #7db7f5; --get: #62c79a; --post: #7db7f5; --put: #e3b45a; --delete: #f08a82; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
a { color: var(--link); text-decoration: none; }
a:hover { text-decoration: underline; }
code, pre { font-family: ui-monospace, "SFMono-Regular", Menlo, Consolas, monospace; font-size: .875em; }
code { background: var(--raised); border-radius: 4px; padding: .1em .3em; overflow-wrap: anywhere; }
pre { background: var(--raised); border: 1px solid var(--line); border-radius: 6px; padding: .8rem 1rem; overflow-x: auto; }
pre code { background: none; padding: 0; }
.page { display: grid; grid-template-columns: 19rem minmax(0, 1fr); max-width: 82rem; margin: 0 auto; }
nav { border-right: 1px solid var(--line); padding: 1.5rem 1rem 2rem 1.5rem; position: sticky; top: 0; height: 100vh;
  overflow-y: auto; font-size: .9rem; }
nav h2 { color: var(--quiet); font-size: .75rem; letter-spacing: .06em; margin: 1.3rem 0 .3rem; text-transform: uppercase; }
nav ul { list-style: none; margin: 0; padding: 0; }
nav li { display: flex; gap: .6rem; padding: .16rem 0; align-items: baseline; }
main { padding: 1.5rem 2.5rem 5rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: .3rem 0 .8rem; }
main > h2 { border-bottom: 1px solid var(--line); font-size: 1.4rem; margin: 3rem 0 .4rem; padding-bottom: .3rem; }
section { border-bottom: 1px solid var(--line); padding: 1.6rem 0 1.8rem; scroll-margin-top: 1rem; }
h3 { font-size: 1.15rem; margin: 0 0 .5rem; }
h4 { color: var(--quiet); font-size: .8rem; letter-spacing: .05em; margin: 1.4rem 0 .4rem; text-transform: uppercase; }
.method { color: var(--ground); border-radius: 4px; flex: none; font: 600 .7rem/1.7 ui-monospace, Menlo, Consolas, monospace;
  padding: 0 .45em; text-align: center; }
nav .method { background: none; padding: 0; text-align: left; width: 3.4em; }
.get { background: var(--get); } .post { background: var(--post); } .put { background: var(--put); } .delete { background: var(--delete); }
nav .get { color: var(--get); } nav .post { color: var(--post); } nav .put { color: var(--put); } nav .delete { color: var(--delete); }
.address { align-items: baseline; display: flex; flex-wrap: wrap; gap: .6rem; margin: 0 0 .7rem; }
.access { color: var(--quiet); font-size: .9rem; margin: 0 0 .8rem; }
.wide { overflow-x: auto; background: linear-gradient(to left, var(--ground) 1.5rem, transparent) right / 3rem 100% no-repeat local,
  linear-gradient(to left, var(--shade), transparent) right / 1.2rem 100% no-repeat scroll; }
table { border-collapse: collapse; font-size: .9rem; width: 100%; }
td { border-top: 1px solid var(--line); padding: .38rem .9rem .38rem 0; vertical-align: top; }
tr > :first-child { min-width: 13rem; width: 30%; } .fields td:nth-child(2) { color: var(--quiet); width: 24%; }
.status tr > :first-child { min-width: 4rem; width: 4rem; }
.actions tr > :first-child { min-width: 9rem; width: auto; } .actions td:nth-child(2) code { white-space: nowrap; }
.actions td:last-child { width: 60%; }
td:first-child code { background: none; padding: 0; }
.type { color: var(--quiet); }
.required { color: var(--delete); font-size: .8em; white-space: nowrap; }
summary { color: var(--link); cursor: pointer; font-size: .9rem; margin: .5rem 0; }
@media (max-width: 56rem) { .page { display: block; } nav { position: static; height: auto; border-right: 0;
  border-bottom: 1px solid var(--line); } main { padding: 1.2rem 1.2rem 4rem; } nav { padding: 1.2rem; }
  .wide > table:not(.status) { min-width: 36rem; } tr > :first-child { min-width: 9rem; } }
`;

/** The one style sheet that the page's content security policy lets through. */
const pageStyleHash = `sha256-${createHash('sha256').update(pageStyle).digest('base64')}`;
