import { expect, it } from 'vitest';
import { isJsonObject, type JsonObject, type JsonValue } from '../../../src/core/json.ts';
import { createSampleAccount } from '../../../src/sample/sample-service.ts';
import type { SampleAccount } from '../../../src/sample/sample-account.ts';
import { sampleTruth } from '../../support/sample-truth.ts';

const records = (account: SampleAccount, entity: string): readonly JsonObject[] =>
  [...sampleTruth(account, entity)].map(({ record }) => record);
const object = (value: JsonValue | undefined): JsonObject => (isJsonObject(value) ? value : {});
const objects = (value: JsonValue | undefined): readonly JsonObject[] =>
  Array.isArray(value) ? value.map(object) : [];
const count = (value: JsonValue | undefined): number => Number(value);

it.each(
  (['tiny', 'small'] as const).flatMap((size) =>
    [1, 7].flatMap((seed) => [0, 1, 2].map((revision) => [size, seed, revision] as const)),
  ),
)('a report counts its own activity: size %s, seed %i, revision %i', (size, seed, revision) => {
  const account = createSampleAccount({ definitionName: 'email-marketing', seed, size, revision });
  const reports = records(account, 'reports');
  expect(reports.length).toBeGreaterThan(1);
  for (const report of reports) {
    const campaign_id = report['id'] ?? null;
    const rows = account
      .list('email_activity', { campaign_id })
      .slice(0, 5_000)
      .map(({ activity }) => objects(activity));
    const events = rows.flat();
    const all = (action: string): readonly JsonObject[] =>
      events.filter((event) => event['action'] === action);
    const recipients = (action: string): number =>
      rows.filter((row) => row.some((event) => event['action'] === action)).length;
    const last = (action: string): string =>
      all(action)
        .map(({ timestamp }) => (typeof timestamp === 'string' ? timestamp : ''))
        .reduce((left, right) => (left > right ? left : right), '');
    const bounces = (type: string): number => all('bounce').filter((event) => event['type'] === type).length;
    const links = rows.flatMap((row) => [
      ...new Set(row.filter(({ action }) => action === 'click').map(({ url }) => url)),
    ]);
    const sent = rows.length;
    const opens = { opens: all('open').length, unique_opens: recipients('open') };
    const clicks = { clicks: all('click').length, subscriber_clicks: recipients('click') };
    const rates = { open_rate: opens.unique_opens / sent, click_rate: clicks.subscriber_clicks / sent };
    const { currency_code: _currency, ...ecommerce } = object(report['ecommerce']);
    expect(report).toMatchObject({
      emails_sent: sent,
      unsubscribed: account.list('unsubscribes', { campaign_id }).slice(0, 5_000).length,
      bounces: { hard_bounces: bounces('hard'), soft_bounces: bounces('soft') },
      opens: {
        opens_total: opens.opens,
        unique_opens: opens.unique_opens,
        open_rate: rates.open_rate,
        last_open: last('open'),
      },
      clicks: {
        clicks_total: clicks.clicks,
        unique_clicks: links.length,
        unique_subscriber_clicks: clicks.subscriber_clicks,
        click_rate: rates.click_rate,
        last_click: last('click'),
      },
    });
    const hours = objects(report['timeseries']);
    expect(hours.reduce((sum, hour) => sum + count(hour['unique_opens']), 0)).toBeLessThanOrEqual(
      opens.unique_opens,
    );
    expect(object(account.get('campaigns', { campaign_id })?.['report_summary'])).toEqual({
      ...opens,
      ...clicks,
      ...rates,
      ecommerce,
    });
  }
});
