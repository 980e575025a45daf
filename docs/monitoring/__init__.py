"""Writes the rules of Prometheus and the dashboards of Grafana in `configs/`, each from one description."""
