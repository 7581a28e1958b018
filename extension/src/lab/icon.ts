import { LabIcon } from '@jupyterlab/ui-components';

const SVG = `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <g class="jp-icon3 jp-icon-selectable" fill="#616161">
    <path d="M12 4a8 8 0 0 1 7.7 5.8l-1.9.6A6 6 0 0 0 6.5 9.6H10v2H3v-7h2v3.5A8 8 0 0 1 12 4z"/>
    <path d="M12 20a8 8 0 0 1-7.7-5.8l1.9-.6a6 6 0 0 0 11.3.8H14v-2h7v7h-2v-3.5A8 8 0 0 1 12 20z"/>
    <circle cx="12" cy="12" r="2.2"/>
  </g>
</svg>`;

/** Two arrows in a circle around a point. */
export const loopIcon = new LabIcon({ name: 'rfnb-lab:loop', svgstr: SVG });
